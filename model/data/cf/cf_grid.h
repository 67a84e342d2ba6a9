// Position of a field's rows and columns. Rows run from north to south, in whichever order the file stores
// them.
//
//   const CfPlaces at = places_of(file, variable);             // which of its dimensions is which axis
//   const CfGrid g = grid_of(file, variable, at);              // throws ArrayError: not on earth
//   const CfPoints p = points_of(file, variable);              // of any dimensions, as the file stores them
#pragma once
#include <array>
#include <string>
#include <vector>

#include "model/data/cf/cf_file.h"

namespace isobar::data {

struct CfPlaces {  // positions among the variable's dimensions; -1: none
  int time = -1, level = -1, row = -1, column = -1;
};

/// Found by the axis types of the dimensions, else by a two-dimensional latitude.
CfPlaces places_of(const CfFile& file, const CfVariable& v);

struct CfGrid {
  int64_t rows = 0, columns = 0;            // a column that repeats the first, 360 degrees on, is not counted
  bool south_first = false;                 // in the file
  std::vector<double> latitude, longitude;  // degrees; {}: unknown, or the rows are no latitudes
  std::string no_degrees;                   // why they are unknown, "" where the file says nothing
  /// North, south, west and east of a latitude and a longitude of two dimensions; {}: there are none
  std::vector<double> area;
  std::string named;             // those coordinates: "'lat' and 'lon'"
  std::string remark;            // what was dropped, for messages
  std::vector<double> identity;  // own coordinate values, which tell grids without degrees apart
};

CfGrid grid_of(const CfFile& file, const CfVariable& v, const CfPlaces& at);

struct CfPoints {
  std::vector<double> latitude, longitude;  // degrees of each element of a step; {}: unknown
};

/// Coordinates along one or two of the variable's dimensions, or of two dimensions themselves
CfPoints points_of(const CfFile& file, const CfVariable& v);

}  // namespace isobar::data
