// The rows and columns of a grid that a selection takes: a region of latitudes and longitudes, which may
// cross the edge of the file's longitudes, and a stride.
//
//   ChosenGrid grid = choose_grid(info, choice);      // throws ConfigError
//   grid.rows, grid.runs                              // rows from .row; columns as runs, west to east
#pragma once
#include <vector>

#include "model/data/fields/field_choice.h"
#include "model/data/fields/field_file.h"

namespace isobar::data {

struct ChosenGrid {
  struct Run {  // adjacent columns of the file
    int64_t first, count;
  };
  int64_t first_row = 0, rows = 0;  // in the file, before the stride
  std::vector<Run> runs;            // columns, likewise
  int64_t stride = 1;
  std::vector<double> latitude, longitude;  // of the selection; longitudes increase, if necessary beyond 360
  int64_t height() const { return (rows + stride - 1) / stride; }
  int64_t width() const;
};

ChosenGrid choose_grid(const FieldInfo& info, const FieldChoice& choice);

}  // namespace isobar::data
