// Derivatives of a trained net's predictions by its inputs, sample by sample, written to a netCDF file.
//
//   const JacobianAnswer a = write_jacobians({.out = "jacobian.nc"}, open_net_and_data("runs/emulator", "",
//   100)); a.statistics.condition, a.inputs[0].sensitivity
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/forecast/net_and_data.h"
#include "model/records/records.h"

namespace isobar::forecast {

struct JacobianQuestion {
  std::string out;
  std::vector<int64_t> point = {};  // row and column, for nets of fields
  int threads = 1;
  bool bar = true;
};
struct InputSensitivity {
  std::string name, units;
  double sensitivity =
      0;  // mean |dy/dx| over samples and targets, normalised; of a field its sum over points
};
struct JacobianAnswer {
  records::JacobianRecord statistics;
  std::vector<InputSensitivity> inputs;
};
/// Throws ConfigError for a point that is missing or not on the grid.
JacobianAnswer write_jacobians(const JacobianQuestion& q, const NetAndData& from);

}  // namespace isobar::forecast
