// What is taken of fields: which variables and levels, when, where, what is computed beside them, and what
// may be missing. A run's comes from its data.* keys, that of `isobar data` from options.
//
//   open_fields("era5.zarr,single.nc", "data.train", field_choice(spec.data, Split::train));
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "model/base/spec.h"

namespace isobar {

enum class Split { train, valid };

struct FieldChoice {
  FieldChoice() = default;
  FieldChoice(std::vector<std::string> of) : variables(std::move(of)) {}
  FieldChoice(std::initializer_list<std::string> of) : variables(of) {}

  std::vector<std::string> variables;  // as DataSpec has these
  std::vector<double> region;
  int64_t stride = 1;
  std::vector<std::string> dates;
  double time_step = 0;
  std::vector<std::string> static_fields;
  std::string static_file;
  std::vector<std::string> forcings;
  std::string mask;

  bool masks_by_a_variable() const { return !mask.empty() && mask != "fill" && mask != "missing"; }
  /// Every time and place, and nothing beside the variables: files are read as they are.
  bool takes_all() const {
    return region.empty() && stride == 1 && dates.empty() && time_step == 0 && static_fields.empty() &&
           forcings.empty() && mask.empty();
  }
};

/// Of what trains, or of what validates: they differ in dates alone.
FieldChoice field_choice(const DataSpec& data, Split split);

/// "z@500,850" and "z@500/850" are the channels z500 and z850; others stay. Throws ConfigError.
std::vector<std::string> expand_levels(const std::vector<std::string>& variables);

}  // namespace isobar
