// Variables of CF files without a time axis, such as orography or a land-sea mask, for inputs and masks.
//
//   StaticField z = read_static_field({"static.nc"}, "data.static_fields", "z", grid);   // ConfigError
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "model/data/fields/region.h"

namespace isobar::data {

struct StaticField {
  std::string name, units;
  std::vector<float> values;  // [height, width] of the chosen grid; NaN: missing
};

/// Reads the field from the first file that has it. The file's grid must be that of `like`, from which `grid`
/// is taken.
StaticField read_static_field(const std::vector<std::filesystem::path>& files, const std::string& key,
                              const std::string& name, const FieldInfo& like, const ChosenGrid& grid);

/// True when two axes are equal up to the rounding of f32.
bool same_axis(const std::vector<double>& a, const std::vector<double>& b);
/// The same of longitudes, of which -5 degrees and 355 are one.
bool same_longitudes(const std::vector<double>& a, std::vector<double> b);

}  // namespace isobar::data
