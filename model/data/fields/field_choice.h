// A selection of fields: variables and levels, dates, region, static fields and forcings added to them, and
// the handling of missing values. Runs fill it from data.* keys, `isobar data` from options.
//
//   open_fields("era5.zarr,single.nc", "data.train", field_choice(spec.data, Split::train));
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::data {

enum class Split { train, valid };

struct FieldChoice {
  FieldChoice() = default;
  FieldChoice(std::vector<std::string> of) : variables(std::move(of)) {}
  FieldChoice(std::initializer_list<std::string> of) : variables(of) {}

  std::vector<std::string> variables;  // all members as in DataSpec
  std::vector<std::string> channel_names;
  std::vector<double> region;
  int64_t stride = 1;
  std::vector<std::string> dates;
  double time_step = 0;
  std::vector<std::string> static_fields;
  std::string static_file;
  std::vector<std::string> forcings;
  std::string mask;

  bool masks_by_a_variable() const { return !mask.empty() && mask != "fill" && mask != "missing"; }
  /// True when the files are read unchanged: all times and places, no added channels, no mask.
  bool takes_all() const {
    return region.empty() && stride == 1 && dates.empty() && time_step == 0 && static_fields.empty() &&
           forcings.empty() && mask.empty();
  }
};

/// The selection of a split: training and validation differ only in dates.
FieldChoice field_choice(const DataSpec& data, Split split);

/// Expands "z@500,850" and "z@500/850" to the channels z500 and z850; other names stay. Throws ConfigError.
std::vector<std::string> expand_levels(const std::vector<std::string>& variables);

}  // namespace isobar::data
