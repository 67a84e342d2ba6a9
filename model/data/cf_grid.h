// Where the rows and columns of a field lie. Rows run from north to south, whatever way the file has them.
//
//   const CfPlaces at = places_of(file, variable);             // which of its dimensions is which axis
//   const CfGrid g = grid_of(file, variable, at);              // throws ArrayError: no such places on earth
#pragma once
#include <array>
#include <string>
#include <vector>

#include "model/data/cf_file.h"

namespace isobar {

struct CfPlaces {  // among the variable's dimensions; -1: it has none
  int time = -1, level = -1, row = -1, column = -1;
};

/// By the axes that its dimensions are, else by a latitude of two dimensions.
CfPlaces places_of(const CfFile& file, const CfVariable& v);

struct CfGrid {
  int64_t rows = 0, columns = 0;            // a column that repeats the first, 360 degrees on, is not counted
  bool south_first = false;                 // in the file
  std::vector<double> latitude, longitude;  // degrees; {}: unknown, or the rows are no latitudes
  std::string no_degrees;                   // why they are unknown, "" where the file says nothing
  /// North, south, west and east of a latitude and a longitude of two dimensions; {}: there are none
  std::vector<double> area;
  std::string named;             // these two: "'lat' and 'lon'"
  std::string remark;            // what was left out
  std::vector<double> identity;  // numbers that another grid would not have, where degrees are not known
};

CfGrid grid_of(const CfFile& file, const CfVariable& v, const CfPlaces& at);

}  // namespace isobar
