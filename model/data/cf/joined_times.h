// The steps of files in order of time, and the steps that several series have in common.
//
//   std::vector<Series> parts = …;
//   choose_times(parts, choice, "data.train");      // throws ConfigError if they differ
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/data/fields/field_file.h"

namespace isobar::data {

struct Series {
  struct Step {
    const FieldFile* file;
    int64_t step;
    double seconds;  // since 1970; NaN when the file has no times
  };
  FieldFiles files;
  std::vector<Step> steps;
};

/// True when the file gives the times of its steps in a known calendar.
bool tells_time(const FieldInfo& info);

/// Fills `steps` with those of the chosen dates and time step, which must be the same in all parts. Files
/// without times are taken whole, and refused when the choice needs times.
void choose_times(std::vector<Series>& parts, const FieldChoice& choice, const std::string& key);

}  // namespace isobar::data
