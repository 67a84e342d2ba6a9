// Fields of CF archives, such as NetCDF from the Copernicus Climate Data Store and Zarr from xarray: packed
// values, any axis order, levels as channels.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>

#include "model/base/error.h"
#include "model/base/text/joined.h"
#include "model/data/cf/cf_contents.h"
#include "model/data/cf/cf_grid.h"
#include "model/data/cf/cf_times.h"
#include "model/data/fields/field_file.h"
#include "model/data/fields/slab.h"

namespace isobar::data {

namespace {

struct Variable {
  CfVariable meta;
  std::unique_ptr<RawArray> array;
  Packing packing;
  CfPlaces at;
};

struct Run {  // channels that one read delivers: adjacent levels of one variable
  int variable;
  int64_t first_level, levels, first_channel;
};

class CfFields : public FieldFile {
 public:
  CfFields(const std::string& path, const std::string& key, const NamedFields& wanted,
           const std::shared_ptr<ChunkCache>& cache);
  void read_step(int64_t t, const GridWindow& window, const Statistics* norm, float* out,
                 bool gaps) const override;
  void try_library(int64_t most_bytes, const std::function<void()>& alive) const override;

 private:
  void read_run(const Run& run, int64_t t, const GridWindow& window, const Statistics* norm, float* out,
                bool gaps) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& mend) const {
    throw ConfigError(info_.path, info_.key, what, mend);
  }
  bool place_axes(Variable& v) const {
    v.at = places_of(*file_, v.meta);
    return is_field(*file_, v.meta, v.at);
  }
  void choose(const NamedFields& wanted);
  void add_channels(int variable, const std::string& only);
  void require_own_names(const NamedFields& wanted) const;
  void read_coordinates();
  int64_t size_along(const Variable& v, int axis) const {
    return axis < 0 ? 1 : file_->dimensions()[v.meta.dims[axis]].size;
  }
  std::string field_names() const;

  std::unique_ptr<CfFile> file_;  // null after the constructor
  std::vector<Variable> variables_;
  std::vector<Run> runs_;
  int64_t time_dim_ = -1, row_dim_ = -1, column_dim_ = -1;
  bool south_first_ = false;  // rows are flipped on reading
};

CfFields::CfFields(const std::string& path, const std::string& key, const NamedFields& wanted,
                   const std::shared_ptr<ChunkCache>& cache) {
  info_.path = path;
  info_.key = key;
  try {
    file_ = open_cf_file(path);
    info_.format = file_->format();
    choose(wanted);
    read_coordinates();
    info_.left_out = left_out(*file_);
    for (Variable& v : variables_) v.packing = packing_of(*file_, v.meta);
    for (Variable& v : variables_) {
      v.array = file_->array(v.meta, cache);
      Index sizes;
      for (const int64_t d : v.meta.dims) sizes.push_back(file_->dimensions()[d].size);
      if (v.array->dims() != sizes)  // variables along one unlimited axis may be of unequal length
        refuse("variable '" + v.meta.name + "' is shorter than its axes: " + joined(v.array->dims(), " x ") +
                   " of " + joined(sizes, " x "),
               "cut the axes to what it holds: ncks -d, or leave it out (data.variables)");
      const Index chunk = v.array->chunk();
      if (!chunk.empty()) info_.steps_per_chunk = std::max(info_.steps_per_chunk, chunk[v.at.time]);
    }
    info_.layout = variables_[0].array->layout();
    file_.reset();
  } catch (const ArrayError& e) {
    refuse(e.what(), e.mend);
  }
}

std::string CfFields::field_names() const {
  std::string names;
  for (const CfVariable& m : file_->variables()) {
    Variable v{.meta = m};
    if (place_axes(v)) names += (names.empty() ? "" : ", ") + m.name;
  }
  return names;
}

void CfFields::choose(const NamedFields& wanted) {
  const auto add = [&](const CfVariable& meta, const std::string& only) {
    Variable v{.meta = meta};
    place_axes(v);
    const auto& dims = v.meta.dims;
    for (size_t k = 0; k < dims.size(); ++k) {
      const int at = static_cast<int>(k);
      const auto& d = file_->dimensions()[dims[k]];
      if (at != v.at.time && at != v.at.level && at != v.at.row && at != v.at.column && d.size != 1)
        refuse("variable '" + meta.name + "' also varies along '" + d.name + "' (" + std::to_string(d.size) +
                   ")",
               "keep one of them, for instance: ncks -d " + d.name + ",0 in.nc out.nc");
    }
    if (variables_.empty()) {
      time_dim_ = dims[v.at.time], row_dim_ = dims[v.at.row], column_dim_ = dims[v.at.column];
    } else if (dims[v.at.time] != time_dim_ || dims[v.at.row] != row_dim_ ||
               dims[v.at.column] != column_dim_) {
      refuse("variables '" + variables_[0].meta.name + "' and '" + meta.name + "' " +
                 (dims[v.at.time] != time_dim_ ? "have different times" : "lie on different grids"),
             "name variables of one grid and of the same times: data.variables");
    }
    require_sizes(info_.path, info_.key, size_along(v, v.at.time),
                  {size_along(v, v.at.level), size_along(v, v.at.row), size_along(v, v.at.column)});
    file_->require_held(v.meta);
    size_t at = 0;
    while (at < variables_.size() && variables_[at].meta.id != meta.id) ++at;
    if (at == variables_.size()) variables_.push_back(std::move(v));
    add_channels(static_cast<int>(at), only);
  };

  if (wanted.names.empty()) {
    const std::set<std::string> named = named_by_others(*file_);
    for (const CfVariable& m : file_->variables()) {
      Variable v{.meta = m};
      if (!named.contains(m.name) && place_axes(v)) add(m, "");
    }
    if (variables_.empty()) throw why_no_field(*file_, info_.path);
  }
  for (const std::string& name : wanted.names) {
    const CfVariable* found = file_->find(name);
    std::string only;
    Variable v;
    if (found) {
      v.meta = *found;
      if (!place_axes(v)) found = nullptr;
    } else {  // "t500": level 500 of variable t
      for (const CfVariable& m : file_->variables())
        if (name.starts_with(m.name) && (v = {.meta = m}, place_axes(v)) && v.at.level >= 0)
          found = &m, only = name;
    }
    const size_t before = info_.channels.size();
    if (found) add(*found, only);
    if (info_.channels.size() > before || wanted.some_elsewhere) continue;
    const std::string fields = field_names();
    if (fields.empty()) throw why_no_field(*file_, info_.path);
    throw ConfigError(info_.path, "data.variables", "no field '" + name + "'", "the fields are: " + fields);
  }
  if (info_.channels.empty())
    throw ConfigError(info_.path, "data.variables", "none of them is in this file",
                      "its fields are: " + field_names() + "; name some, or leave the file out");
  require_own_names(wanted);
}

void CfFields::require_own_names(const NamedFields& wanted) const {
  const auto& names = info_.channels;
  for (size_t b = 1; b < names.size(); ++b) {
    const auto a = static_cast<size_t>(std::find(names.begin(), names.end(), names[b]) - names.begin());
    if (a == b) continue;
    const std::string &one = info_.variables[a], &other = info_.variables[b];
    if (one == other)
      throw ConfigError(info_.path, "data.variables", "'" + names[b] + "' is named twice",
                        wanted.names.empty() ? "write its level once" : "name it once");
    const auto said = [&](const std::string& v) {
      return v == names[b] ? "variable '" + v + "'" : "a level of variable '" + v + "'";
    };
    throw ConfigError(info_.path, "data.variables",
                      "'" + names[b] + "' is the name of " + said(one) + " and of " + said(other),
                      "choose without one of them (data.variables: [" + one +
                          "]), or rename one: ncrename -v " + one + ",other");
  }
}

/// Appends the channels of a variable (`only` = "": all levels), merging adjacent levels into one read.
void CfFields::add_channels(int variable, const std::string& only) {
  const Variable& v = variables_[variable];
  std::vector<std::string> names = {v.meta.name};
  if (v.at.level >= 0) {
    const int64_t dim = v.meta.dims[v.at.level];
    const CfVariable* axis = coordinate_variable(*file_, dim);
    const std::string units = axis ? file_->text(*axis, "units") : "";
    names.clear();
    for (double level : coordinate_of(*file_, dim)) {
      if (std::isnan(level))
        refuse("the levels '" + file_->dimensions()[dim].name + "' have no value at " +
                   std::to_string(names.size()),
               "mend the coordinate: ncap2, or write the file anew");
      names.push_back(v.meta.name + level_name(level, units));
    }
  }
  for (size_t l = 0; l < names.size(); ++l) {
    if (!only.empty() && names[l] != only) continue;
    const auto level = static_cast<int64_t>(l);
    Run* last = runs_.empty() ? nullptr : &runs_.back();
    if (last && last->variable == variable && last->first_level + last->levels == level) {
      ++last->levels;
    } else {
      runs_.push_back({variable, level, 1, static_cast<int64_t>(info_.channels.size())});
    }
    info_.channels.push_back(showable(names[l]));
    info_.variables.push_back(showable(v.meta.name));
    info_.units.push_back(showable(file_->text(v.meta, "units")));
  }
}

void CfFields::read_coordinates() {
  CfGrid grid = grid_of(*file_, variables_[0].meta, variables_[0].at);
  info_.steps = file_->dimensions()[time_dim_].size;
  info_.shape = {static_cast<int64_t>(info_.channels.size()), grid.rows, grid.columns};
  info_.latitude = std::move(grid.latitude), info_.longitude = std::move(grid.longitude);
  info_.no_degrees = grid.no_degrees, info_.remark = grid.remark;
  info_.area = grid.area, info_.area_of = grid.named;
  info_.grid_identity = std::move(grid.identity);
  south_first_ = grid.south_first;
  CfTimes times = times_of(*file_, time_dim_);
  info_.times = std::move(times.values);
  info_.time_units = showable(times.units);
  info_.calendar = showable(times.calendar);
  if (!times.unread.empty()) info_.time_unread = "of its time axis '" + times.name + "' " + times.unread;
  if (const int64_t t = first_not_later(info_.times); t > 0)
    refuse("the time axis '" + times.name + "' does not increase at step " + std::to_string(t),
           "sort the file by time and drop doubled steps");
}

void CfFields::try_library(int64_t most_bytes, const std::function<void()>& alive) const {
  try {
    for (const Variable& v : variables_)
      v.array->try_library(most_bytes / static_cast<int64_t>(variables_.size()), alive);
  } catch (const ArrayError& e) {
    refuse(e.what(), e.mend);
  }
}

/// The run that this thread reads first when chunks span several steps. Threads that need the same chunks
/// then decode different ones, and share them through the cache (chunk_cache.h).
size_t first_of_thread(size_t runs) {
  static std::atomic<size_t> threads{0};
  thread_local const size_t mine = threads++;
  return mine * (runs / 2 + 1) % runs;
}

void CfFields::read_step(int64_t t, const GridWindow& window, const Statistics* norm, float* out,
                         bool gaps) const {
  const size_t n = runs_.size(), first = info_.steps_per_chunk > 1 ? first_of_thread(n) : 0;
  try {
    for (size_t k = 0; k < n; ++k) read_run(runs_[(first + k) % n], t, window, norm, out, gaps);
  } catch (const ConfigError&) {
    // Report the step's first error, whichever run this thread began with.
    for (size_t k = 0; k < first; ++k) read_run(runs_[k], t, window, norm, out, gaps);
    throw;
  }
}

void CfFields::read_run(const Run& run, int64_t t, const GridWindow& window, const Statistics* norm,
                        float* out, bool gaps) const {
  thread_local std::vector<std::byte> raw;
  thread_local std::vector<float> unpacked;
  const int64_t plane = window.height * window.width;
  const Variable& v = variables_[run.variable];
  Index start(v.meta.dims.size(), 0), count(v.meta.dims.size(), 1);
  start[v.at.time] = t;
  if (v.at.level >= 0) start[v.at.level] = run.first_level, count[v.at.level] = run.levels;
  count[v.at.row] = window.height;
  start[v.at.row] = south_first_ ? info_.shape.height - window.row - window.height : window.row;
  start[v.at.column] = window.column;
  count[v.at.column] = window.width;
  const int64_t n = product(count);
  const Index strides = strides_of(count);
  const int64_t level_stride = v.at.level >= 0 ? strides[v.at.level] : 0;
  const auto unpack_from = [&](const void* stored, int64_t first, int64_t many, float* to) {
    int64_t bad = unpack(stored, v.array->element(), many, v.packing, to, gaps);
    if (bad < 0) return;
    bad += first;
    const int64_t level = v.at.level >= 0 ? bad / level_stride % run.levels : 0;
    int64_t row = bad / strides[v.at.row] % window.height;
    if (south_first_) row = window.height - 1 - row;
    fail(t, run.first_channel + level,
         "missing value (_FillValue, missing_value or outside of valid_range) at row " +
             std::to_string(window.row + row) + ", column " +
             std::to_string(window.column + bad / strides[v.at.column] % window.width),
         "training needs complete fields: fill or drop this step, or say data.mask: missing");
  };
  // Data already in the output's type and order are read straight into it, and normalised while in cache.
  const bool in_place = !south_first_ && v.array->element() == Element::f32 && v.packing.scale == 1 &&
                        v.packing.offset == 0 && strides[v.at.row] == window.width &&
                        strides[v.at.column] == 1 && (run.levels == 1 || level_stride == plane);
  float* const wanted = out + run.first_channel * plane;
  bool filled = false;
  const auto finish_as_it_comes = [&](int64_t first, int64_t many, bool swapped) {
    Stretch s{first, many, swapped};
    if (gaps || v.packing.marks_more()) {
      if (swapped) swap_bytes(wanted + first, many, sizeof(float)), s.swapped = false;
      unpack_from(wanted + first, first, many, wanted + first);
    } else {
      s.fill = static_cast<float>(v.packing.missing[0]);
    }
    if (!gaps) filled = finish_stretch(t, run.first_channel, window, norm, wanted, s) || filled;
  };
  try {
    if (in_place) v.array->read_in_pieces(start, count, wanted, finish_as_it_comes);
    if (in_place && !filled) return;
    // A value equals the fill value rounded to float: read again as stored, to decide exactly and report its
    // position.
    raw.resize(n * size_of(v.array->element())), unpacked.resize(n);
    v.array->read(start, count, raw.data());
  } catch (const ArrayError& e) {
    fail(t, run.first_channel, e.what(), e.mend);
  }
  // Reorder the slab from file order to [level, row, column], north first.
  unpack_from(raw.data(), 0, n, unpacked.data());
  for (int64_t l = 0; l < run.levels; ++l) {
    float* to = wanted + l * plane;
    for (int64_t i = 0; i < window.height; ++i) {
      const int64_t row = south_first_ ? window.height - 1 - i : i;
      const float* from = unpacked.data() + l * level_stride + row * strides[v.at.row];
      if (strides[v.at.column] == 1)
        std::copy_n(from, window.width, to + i * window.width);
      else
        for (int64_t j = 0; j < window.width; ++j) to[i * window.width + j] = from[j * strides[v.at.column]];
    }
    if (!gaps) finish_plane(t, run.first_channel + l, window, norm, to);
  }
}

}  // namespace

std::unique_ptr<FieldFile> open_cf_fields(const std::string& path, const std::string& key,
                                          const NamedFields& variables,
                                          const std::shared_ptr<ChunkCache>& cache) {
  return std::make_unique<CfFields>(path, key, variables, cache);
}

}  // namespace isobar::data
