// Variables of one or more netCDF files on one grid as table columns: each point of the grid at each step is
// a row. Variables have an optional time dimension and any number of grid dimensions; variables along one
// dimension form a plain table. Units and coordinates of such rows: table.h.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/data/choice/row_choice.h"

namespace isobar::data {

/// Judged by the first bytes, since names may end in .nc4, .cdf or .h5
bool is_netcdf(const std::string& path);

/// Offers every row, with NaN for missing values. Each variable must be in exactly one of the files; grids
/// and times of the files must agree. Throws ConfigError.
void gather_points(const std::vector<std::string>& paths, const std::string& key,
                   const std::vector<std::string>& names, const std::function<void()>& alive,
                   RowGatherer& rows);

}  // namespace isobar::data
