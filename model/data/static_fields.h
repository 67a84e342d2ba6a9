// Variables without a time axis, of a CF file: orography, a land-sea mask. Further inputs, and masks.
//
//   StaticField z = read_static_field({"static.nc"}, "data.static_fields", "z", grid);   // throws
//   ConfigError
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "model/data/region.h"

namespace isobar {

struct StaticField {
  std::string name, units;
  std::vector<float> values;  // [height, width] of the chosen grid; NaN where missing
};

/// Of the first file that has it, on the grid of `like` of which `grid` is chosen.
StaticField read_static_field(const std::vector<std::filesystem::path>& files, const std::string& key,
                              const std::string& name, const FieldInfo& like, const ChosenGrid& grid);

/// Whether two axes are the same, written as f32 or as f64.
bool same_axis(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace isobar
