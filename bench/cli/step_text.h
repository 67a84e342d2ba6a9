// Output of `isobar predict` for a step, on cores and on accelerators.
//
//   print_prediction(p, spec, machine);               // terms, throughput, memory, checkpoints, notes
//   nlohmann::json j = json_of(p, spec, machine);     // the same for machines
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "perfmodel/predict.h"

namespace isobar {

/// Seconds, or milliseconds for short steps: unit of a step's columns.
struct TimeUnit {
  double per_second;
  const char* name;
};
TimeUnit unit_of(double step_s);

void print_prediction(const Prediction& p, const RunSpec& spec, const Machine& machine);
nlohmann::json json_of(const Prediction& p, const RunSpec& spec, const Machine& machine);

}  // namespace isobar
