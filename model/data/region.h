// Which rows and columns of a grid a choice takes: a region by latitude and longitude, which may lie over the
// line where the file's longitudes begin anew, and every so many of them.
//
//   ChosenGrid grid = choose_grid(info, choice);      // throws ConfigError
//   grid.rows, grid.runs                              // rows from .row; columns as runs, west to east
#pragma once
#include <vector>

#include "model/data/field_choice.h"
#include "model/data/field_file.h"

namespace isobar {

struct ChosenGrid {
  struct Run {  // adjacent columns of the file
    int64_t first, count;
  };
  int64_t first_row = 0, rows = 0;  // of the file, before every so many are taken
  std::vector<Run> runs;            // the same of columns
  int64_t stride = 1;
  std::vector<double> latitude, longitude;  // of what is taken; longitudes increase, beyond 360 if need be
  int64_t height() const { return (rows + stride - 1) / stride; }
  int64_t width() const;
};

ChosenGrid choose_grid(const FieldInfo& info, const FieldChoice& choice);

}  // namespace isobar
