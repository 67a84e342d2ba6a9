// The steps of files in the order of their times, and of several series those that they have in common.
//
//   std::vector<Series> parts = …;
//   choose_times(parts, choice, "data.train");      // throws ConfigError where they differ
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/data/field_file.h"

namespace isobar {

struct Series {
  struct Step {
    const FieldFile* file;
    int64_t step;
    double seconds;  // since 1970; NaN where the file does not say
  };
  FieldFiles files;
  std::vector<Step> steps;
};

/// Whether the file says when its steps are, in a calendar that is known.
bool tells_time(const FieldInfo& info);

/// Fills `steps` with those of the chosen dates and time step, which have to be the same in all parts. Files
/// that do not tell times are taken whole, and refused where times are chosen.
void choose_times(std::vector<Series>& parts, const FieldChoice& choice, const std::string& key);

}  // namespace isobar
