// Variables of one netCDF file, or of several on one grid, as columns: every point of the grid at every step
// is a row. A variable lies on a grid of its file, [time,] and the dimensions of the grid in any number; one
// along a single dimension is a column of a plain table.
//
//   PointFiles files({"ocean.nc", "atmosphere.nc"}, "data.train", {"sst", "tair"});   // throws ConfigError
//   files.read(step, planes);                   // planes[1][point]: tair, NaN where it is missing
//
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/data/cf_times.h"
#include "model/data/element.h"
#include "model/data/netcdf_file.h"

namespace isobar {

class PointFiles {
 public:
  /// Each variable is found in one of the files alone; grids and times of files agree.
  PointFiles(const std::vector<std::string>& paths, std::string key, const std::vector<std::string>& names);
  int64_t steps() const { return steps_; }
  int64_t points() const { return points_; }
  /// Unpacked, in the order of names. Throws ConfigError.
  void read(int64_t step, std::vector<std::vector<double>>& planes) const;

 private:
  struct Source {
    std::string path;
    std::unique_ptr<NetcdfFile> file;
    CfTimes times;  // none: no time axis
    bool has_time = false;
    std::vector<int64_t> dims;              // of its variables that are read
    std::vector<int64_t> grid;              // sizes, without time
    std::vector<std::vector<double>> axes;  // numbers along each of grid; {}: none are told
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

}  // namespace isobar
