#include "model/data/tables/point_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include "model/base/error.h"
#include "model/base/text/joined.h"
#include "model/data/cf/cf_axes.h"
#include "model/data/cf/cf_grid.h"
#include "model/data/cf/cf_times.h"
#include "model/data/cf/dates.h"
#include "model/data/fields/static_fields.h"
#include "model/data/files/netcdf/netcdf_file.h"

namespace isobar::data {
namespace {

/// The files, open: files.read(step, planes) fills planes[1][point] of the second column.
class PointFiles {
 public:
  /// Each variable must be in exactly one of the files; grids and times of the files must agree.
  PointFiles(const std::vector<std::string>& paths, std::string key, const std::vector<std::string>& names);
  int64_t steps() const { return steps_; }
  int64_t points() const { return points_; }
  /// Reads the unpacked values, in the order of names. Throws ConfigError.
  void read(int64_t step, std::vector<std::vector<double>>& planes) const;
  CfPoints coordinates() const;  // [points]; {}: no file has them
  CfTimes times() const;         // [steps]
  /// Units of each column; "" if the file has none
  std::vector<std::string> units() const;

 private:
  struct Source {
    std::string path;
    std::unique_ptr<NetcdfFile> file;
    CfTimes times;  // empty: no time axis
    bool has_time = false;
    std::vector<int64_t> dims;              // of the variables read from it
    std::vector<int64_t> grid;              // sizes without time
    std::vector<std::vector<double>> axes;  // coordinate values along each dimension of grid; {}: none
  };
  struct Column {
    size_t source;
    CfVariable variable;
    Packing packing;
  };
  void find(const std::string& name);
  void place(Source& s, const CfVariable& v, const std::string& first);
  void require_agreement(const Source& a, const Source& b) const;

  std::string key_;
  std::vector<Source> sources_;
  std::vector<Column> columns_;
  int64_t steps_ = 1, points_ = 1;
};

const CfVariable* axis_variable(const NetcdfFile& file, int64_t dim) {
  const CfVariable* v = file.find(file.dimensions()[dim].name);
  return v && v->numeric && v->dims.size() == 1 && v->dims[0] == dim ? v : nullptr;
}

/// Compares what the numbers mean, or the numbers where that is unknown; true where one file has none.
bool same_times(const CfTimes& a, const CfTimes& b) {
  if (a.values.empty() || b.values.empty()) return true;
  const TimeScale of_a = time_scale(a.units, a.calendar), of_b = time_scale(b.units, b.calendar);
  if (!of_a.unread.empty() || !of_b.unread.empty()) return a.units == b.units && a.values == b.values;
  return a.values.size() == b.values.size() &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), [&](double x, double y) {
           const auto p = of_a.seconds(x), q = of_b.seconds(y);
           return p && q && std::abs(*p - *q) < 1;
         });
}

PointFiles::PointFiles(const std::vector<std::string>& paths, std::string key,
                       const std::vector<std::string>& names)
    : key_(std::move(key)) {
  for (const std::string& path : paths) {
    Source& s = sources_.emplace_back();
    s.path = path;
    try {
      s.file = std::make_unique<NetcdfFile>(path);
    } catch (const ArrayError& e) {
      throw ConfigError(path, key_, e.what(), e.mend);
    }
  }
  for (const std::string& name : names) find(name);
  const Source* first = nullptr;
  for (const Source& s : sources_) {
    if (s.dims.empty())
      throw ConfigError(s.path, key_, "none of its variables is read: " + joined(names),
                        "leave the file out, or name some in data.inputs or data.targets");
    if (first) require_agreement(*first, s);
    if (!first) first = &s;
  }
  for (const int64_t n : first->grid) points_ *= n;
  for (const Source& s : sources_)
    if (s.has_time) steps_ = s.file->dimensions()[s.dims[0]].size;
}

void PointFiles::find(const std::string& name) {
  std::vector<std::string> has;
  size_t found = sources_.size();
  for (size_t i = 0; i < sources_.size(); ++i) {
    const NetcdfFile& file = *sources_[i].file;
    for (const CfVariable& v : file.variables())
      if (v.numeric && !v.dims.empty() && (v.dims.size() > 1 || axis_variable(file, v.dims[0]) != &v))
        has.push_back(v.name);
    const CfVariable* v = file.find(name);
    if (!v || !v->numeric || v->dims.empty()) continue;
    if (found < sources_.size())
      throw ConfigError(sources_[found].path, key_, "'" + name + "' is in " + sources_[i].path + " too",
                        "rename it in one of them, or leave it out: ncks -x -v " + name);
    found = i;
  }
  if (found == sources_.size())
    throw ConfigError(joined(sources_, ",", &Source::path), key_, "there is no column '" + name + "'",
                      std::string(sources_.size() > 1 ? "the files have " : "the file has ") + joined(has));
  Source& s = sources_[found];
  try {
    const CfVariable& v = *s.file->find(name);
    std::string first;
    for (const Column& c : columns_)
      if (c.source == found && first.empty()) first = c.variable.name;
    s.file->require_held(v);
    place(s, v, first);
    columns_.push_back({found, v, packing_of(*s.file, v)});
  } catch (const ArrayError& e) {
    throw ConfigError(s.path, key_, e.what(), e.mend);
  }
}

// The file's grid is that of the first variable read from it.
void PointFiles::place(Source& s, const CfVariable& v, const std::string& first) {
  if (!first.empty()) {
    if (v.dims != s.dims)
      throw ConfigError(s.path, key_, "'" + v.name + "' and '" + first + "' lie along different dimensions",
                        "columns of a table have one row dimension, fields one grid");
    return;
  }
  const NetcdfFile& file = *s.file;
  s.dims = v.dims;
  for (size_t k = 0; k < v.dims.size(); ++k) {
    const CfVariable* axis = axis_variable(file, v.dims[k]);
    const std::vector<double> numbers = axis && axis != &v ? decoded(file, *axis) : std::vector<double>();
    if (v.dims.size() > 1 && axis_of(file, v.dims[k]) == CfAxis::time) {
      if (k != 0)
        throw ConfigError(s.path, key_, "time is not the first dimension of '" + v.name + "'",
                          "turn it: ncpdq -a " + file.dimensions()[v.dims[k]].name);
      s.has_time = true;
      s.times = times_of(file, v.dims[k]);
    } else {
      s.grid.push_back(file.dimensions()[v.dims[k]].size);
      s.axes.push_back(numbers);
    }
  }
}

void PointFiles::require_agreement(const Source& a, const Source& b) const {
  const auto refuse = [&](const std::string& what, const std::string& mend) {
    throw ConfigError(a.path, key_, what, mend);
  };
  if (a.grid != b.grid)
    refuse("has a grid of " + joined(a.grid, " x ") + ", " + b.path + " one of " + joined(b.grid, " x "),
           "bring them to one grid: cdo remapbil");
  for (size_t k = 0; k < a.axes.size(); ++k)
    if (!a.axes[k].empty() && !b.axes[k].empty() && !same_axis(a.axes[k], b.axes[k]))
      refuse("and " + b.path + " have other coordinates along dimension " + std::to_string(k + 1) +
                 " of their grids",
             "bring them to one grid, in one order: cdo remapbil, cdo invertlat");
  const auto steps = [](const Source& s) { return s.has_time ? s.file->dimensions()[s.dims[0]].size : 1; };
  if (steps(a) != steps(b))
    refuse("has " + std::to_string(steps(a)) + " steps, " + b.path + " has " + std::to_string(steps(b)),
           "cut them to the same times: cdo seltimestep");
  if (!same_times(a.times, b.times))
    refuse("and " + b.path + " have other times", "cut them to the same times: cdo seltimestep");
}

void PointFiles::read(int64_t step, std::vector<std::vector<double>>& planes) const {
  planes.resize(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    const Source& s = sources_[column.source];
    try {
      planes[c] = s.has_time ? s.file->values_at(column.variable, step) : s.file->values(column.variable);
    } catch (const ArrayError& e) {
      throw ConfigError(s.path, key_, e.what(), e.mend);
    }
    for (double& x : planes[c]) x = physical_value(x, column.variable.element, column.packing);
  }
}

CfPoints PointFiles::coordinates() const {
  for (const Column& column : columns_) {
    const Source& s = sources_[column.source];
    try {
      CfPoints p = points_of(*s.file, column.variable);
      if (!p.latitude.empty()) return p;
    } catch (const ArrayError& e) {
      throw ConfigError(s.path, key_, e.what(), e.mend);
    }
  }
  return {};
}

CfTimes PointFiles::times() const {
  for (const Source& s : sources_)
    if (!s.times.values.empty()) return s.times;
  return {};
}

std::vector<std::string> PointFiles::units() const {
  std::vector<std::string> out;
  for (const Column& c : columns_) out.push_back(sources_[c.source].file->text(c.variable, "units"));
  return out;
}

}  // namespace

bool is_netcdf(const std::string& path) {
  char magic[4] = "";
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::string(magic, 3) == "CDF" || std::string(magic, 4) == "\x89HDF" ||
         std::filesystem::path(path).extension() == ".nc";
}

void gather_points(const std::vector<std::string>& paths, const std::string& key,
                   const std::vector<std::string>& names, const std::function<void()>& alive,
                   RowGatherer& rows) {
  const PointFiles files(paths, key, names);
  std::vector<std::vector<double>> planes;
  std::vector<double> numbers(names.size());
  for (int64_t step = 0; step < files.steps(); ++step) {
    files.read(step, planes);
    for (int64_t i = 0; i < files.points(); ++i) {
      for (size_t c = 0; c < numbers.size(); ++c) numbers[c] = planes[c][i];
      rows.offer(step * files.points() + i, numbers.data());
    }
    if (alive) alive();
  }
}

TablePoints points_of_table(const std::string& path, const std::string& key,
                            const std::vector<std::string>& columns) {
  const std::vector<std::string> names = files_of_table(path);
  if (!std::all_of(names.begin(), names.end(), is_netcdf)) return {};
  const PointFiles files(names, key, columns);
  auto [latitude, longitude] = files.coordinates();
  CfTimes t = files.times();
  if (!t.unread.empty()) t = {};
  return {files.points(), std::move(latitude), std::move(longitude), std::move(t.values),
          t.units,        t.calendar};
}

std::vector<std::string> units_of_table(const std::string& path, const std::string& key,
                                        const std::vector<std::string>& columns) {
  const std::vector<std::string> names = files_of_table(path);
  if (names.empty() || !std::all_of(names.begin(), names.end(), is_netcdf)) return {};
  return PointFiles(names, key, columns).units();
}

}  // namespace isobar::data
