// Variables of one or more netCDF files on one grid as table columns: each point of the grid at each step is
// a row. Variables have an optional time dimension and any number of grid dimensions; variables along one
// dimension form a plain table.
//
//   PointFiles files({"ocean.nc", "atmosphere.nc"}, "data.train", {"sst", "tair"});   // throws ConfigError
//   files.read(step, planes);                   // planes[1][point]: tair, NaN if missing
//   files.coordinates().latitude[point]         // as the first file that has them says
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/data/cf/cf_grid.h"
#include "model/data/cf/cf_times.h"
#include "model/data/files/element.h"
#include "model/data/files/netcdf/netcdf_file.h"

namespace isobar::data {

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

}  // namespace isobar::data
