// CF NetCDF as the Copernicus Climate Data Store delivers it, and Zarr as xarray writes it: packed numbers,
// any axis order, levels as channels.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <set>

#include "model/base/error.h"
#include "model/data/cf_axes.h"
#include "model/data/cf_file.h"
#include "model/data/field_file.h"
#include "model/data/slab.h"

namespace isobar {

namespace {

struct Variable {
  CfVariable meta;
  std::unique_ptr<RawArray> array;
  Packing packing;
  int time = -1, level = -1, row = -1, column = -1;  // places of the axes among the variable's dimensions
};

std::string text_of(const Index& dims) {
  std::string text;
  for (const int64_t d : dims) text += (text.empty() ? "" : " x ") + std::to_string(d);
  return text;
}

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
  bool place_axes(Variable& v) const;
  void choose(const NamedFields& wanted);
  void add_channels(int variable, const std::string& only);
  void read_coordinates();
  int64_t size_along(const Variable& v, int axis) const {
    return axis < 0 ? 1 : file_->dimensions()[v.meta.dims[axis]].size;
  }
  std::string field_names() const;

  std::unique_ptr<CfFile> file_;  // null once everything is known
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
    for (Variable& v : variables_) v.packing = packing_of(*file_, v.meta);
    for (Variable& v : variables_) {
      v.array = file_->array(v.meta, cache);
      Index sizes;
      for (const int64_t d : v.meta.dims) sizes.push_back(file_->dimensions()[d].size);
      if (v.array->dims() != sizes)  // variables along one unlimited axis may be of unequal length
        refuse("variable '" + v.meta.name + "' is shorter than its axes: " + text_of(v.array->dims()) +
                   " of " + text_of(sizes),
               "cut the axes to what it holds: ncks -d, or leave it out (data.variables)");
      const Index chunk = v.array->chunk();
      if (!chunk.empty()) info_.steps_per_chunk = std::max(info_.steps_per_chunk, chunk[v.time]);
    }
    info_.layout = variables_[0].array->layout();
    file_.reset();
  } catch (const ArrayError& e) {
    refuse(e.what(), e.mend);
  }
}

/// Finds time, level, row and column among a variable's dimensions; false when it is not a field.
bool CfFields::place_axes(Variable& v) const {
  if (!v.meta.numeric) return false;
  for (size_t k = 0; k < v.meta.dims.size(); ++k) {
    const int at = static_cast<int>(k);
    switch (axis_of(*file_, v.meta.dims[k])) {
      case CfAxis::time:
        v.time = at;
        break;
      case CfAxis::level:
        v.level = at;
        break;
      case CfAxis::latitude:
        v.row = at;
        break;
      case CfAxis::longitude:
        v.column = at;
        break;
      case CfAxis::other:
        break;
    }
  }
  return v.time >= 0 && v.row >= 0 && v.column >= 0;
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
      if (at != v.time && at != v.level && at != v.row && at != v.column && d.size != 1)
        refuse("variable '" + meta.name + "' also varies along '" + d.name + "' (" + std::to_string(d.size) +
                   ")",
               "keep one of them, for instance: ncks -d " + d.name + ",0 in.nc out.nc");
    }
    if (variables_.empty()) {
      time_dim_ = dims[v.time], row_dim_ = dims[v.row], column_dim_ = dims[v.column];
    } else if (dims[v.time] != time_dim_ || dims[v.row] != row_dim_ || dims[v.column] != column_dim_) {
      refuse("variables '" + variables_[0].meta.name + "' and '" + meta.name + "' lie on different grids",
             "name variables of one grid: data.variables");
    }
    require_sizes(info_.path, info_.key, size_along(v, v.time),
                  {size_along(v, v.level), size_along(v, v.row), size_along(v, v.column)});
    file_->require_held(v.meta);
    size_t at = 0;
    while (at < variables_.size() && variables_[at].meta.id != meta.id) ++at;
    if (at == variables_.size()) variables_.push_back(std::move(v));
    add_channels(static_cast<int>(at), only);
  };

  if (wanted.names.empty()) {
    for (const CfVariable& m : file_->variables()) {
      Variable v{.meta = m};
      if (place_axes(v)) add(m, "");
    }
    if (variables_.empty())
      refuse("no variable on a time, latitude and longitude axis was found",
             "the axes need CF attributes (standard_name, units or axis) on one-dimensional coordinates");
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
        if (name.starts_with(m.name) && (v = {.meta = m}, place_axes(v)) && v.level >= 0)
          found = &m, only = name;
    }
    const size_t before = info_.channels.size();
    if (found) add(*found, only);
    if (info_.channels.size() == before && !wanted.some_elsewhere)
      throw ConfigError(info_.path, "data.variables", "no field '" + name + "'",
                        "the fields are: " + field_names());
  }
  if (info_.channels.empty())
    throw ConfigError(info_.path, "data.variables", "none of them is in this file",
                      "its fields are: " + field_names() + "; name some, or leave the file out");
  const std::set<std::string> unique(info_.channels.begin(), info_.channels.end());
  if (unique.size() != info_.channels.size())
    throw ConfigError(info_.path, "data.variables", "the same channel is named twice", "name each once");
}

/// Appends the channels of a variable (`only` = "" for all of its levels), joining adjacent levels into one
/// read.
void CfFields::add_channels(int variable, const std::string& only) {
  const Variable& v = variables_[variable];
  std::vector<std::string> names = {v.meta.name};
  if (v.level >= 0) {
    const int64_t dim = v.meta.dims[v.level];
    const CfVariable* axis = file_->find(file_->dimensions()[dim].name);
    const std::string units = axis ? file_->text(*axis, "units") : "";
    names.clear();
    for (double level : coordinate_of(*file_, dim)) names.push_back(v.meta.name + level_name(level, units));
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
  const auto& dims = file_->dimensions();
  info_.steps = dims[time_dim_].size;
  info_.shape = {static_cast<int64_t>(info_.channels.size()), dims[row_dim_].size, dims[column_dim_].size};
  info_.latitude = coordinate_of(*file_, row_dim_);
  info_.longitude = coordinate_of(*file_, column_dim_);
  south_first_ = file_->find(dims[row_dim_].name) && info_.latitude.front() < info_.latitude.back();
  if (south_first_) std::reverse(info_.latitude.begin(), info_.latitude.end());
  const CfVariable* time = file_->find(dims[time_dim_].name);
  if (!time || !time->numeric || time->dims.size() != 1) return;
  info_.times = file_->values(*time);
  info_.time_units = showable(file_->text(*time, "units"));
  info_.calendar = showable(file_->text(*time, "calendar"));
  for (size_t t = 1; t < info_.times.size(); ++t)
    if (!(info_.times[t] > info_.times[t - 1]))
      refuse("the time axis '" + time->name + "' does not increase at step " + std::to_string(t),
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

/// Where a thread begins among the runs of a step whose chunks hold several steps: threads that want the same
/// chunks decode different ones of them, each for all (chunk_cache.h).
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
    // The first of a step's errors is told, whichever thread reads it.
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
  start[v.time] = t;
  if (v.level >= 0) start[v.level] = run.first_level, count[v.level] = run.levels;
  count[v.row] = window.height;
  start[v.row] = south_first_ ? info_.shape.height - window.row - window.height : window.row;
  start[v.column] = window.column;
  count[v.column] = window.width;
  const int64_t n = product(count);
  const Index strides = strides_of(count);
  const int64_t level_stride = v.level >= 0 ? strides[v.level] : 0;
  const auto unpack_from = [&](const void* stored, int64_t first, int64_t many, float* to) {
    int64_t bad = unpack(stored, v.array->element(), many, v.packing, to, gaps);
    if (bad < 0) return;
    bad += first;
    const int64_t level = v.level >= 0 ? bad / level_stride % run.levels : 0;
    int64_t row = bad / strides[v.row] % window.height;
    if (south_first_) row = window.height - 1 - row;
    fail(t, run.first_channel + level,
         "missing value (_FillValue, missing_value or outside of valid_range) at row " +
             std::to_string(window.row + row) + ", column " +
             std::to_string(window.column + bad / strides[v.column] % window.width),
         "training needs complete fields: fill or drop this step, or say data.mask: missing");
  };
  // What lies as it is wanted, numbers and places, is read to where it is wanted, and finished as it comes.
  const bool in_place = !south_first_ && v.array->element() == Element::f32 && v.packing.scale == 1 &&
                        v.packing.offset == 0 && strides[v.row] == window.width && strides[v.column] == 1 &&
                        (run.levels == 1 || level_stride == plane);
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
    if (in_place) v.array->read_told(start, count, wanted, finish_as_it_comes);
    if (in_place && !filled) return;
    // What is missing is told by its place; a fill value that no float is, is not missing.
    raw.resize(n * size_of(v.array->element())), unpacked.resize(n);
    v.array->read(start, count, raw.data());
  } catch (const ArrayError& e) {
    fail(t, run.first_channel, e.what(), e.mend);
  }
  // The slab in file order becomes [level, row, column], north first.
  unpack_from(raw.data(), 0, n, unpacked.data());
  for (int64_t l = 0; l < run.levels; ++l) {
    float* to = wanted + l * plane;
    for (int64_t i = 0; i < window.height; ++i) {
      const int64_t row = south_first_ ? window.height - 1 - i : i;
      const float* from = unpacked.data() + l * level_stride + row * strides[v.row];
      if (strides[v.column] == 1)
        std::copy_n(from, window.width, to + i * window.width);
      else
        for (int64_t j = 0; j < window.width; ++j) to[i * window.width + j] = from[j * strides[v.column]];
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

}  // namespace isobar
