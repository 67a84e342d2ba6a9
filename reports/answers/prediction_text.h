// A predicted step in text and JSON, on cores and on accelerators.
//
//   std::string s = prediction_text(p, spec, machine);   // terms, throughput, memory, checkpoints, notes
//   nlohmann::json j = json_of(p, spec, machine);        // the same for programs
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "perfmodel/ask/predict.h"

namespace isobar::report {

/// Seconds, or milliseconds for short steps: unit of a step's columns.
struct TimeUnit {
  double per_second;
  const char* name;
};
TimeUnit unit_of(double step_s);

std::string prediction_text(const perf::Prediction& p, const RunSpec& spec, const perf::Machine& machine);
nlohmann::json json_of(const perf::Prediction& p, const RunSpec& spec, const perf::Machine& machine);

}  // namespace isobar::report
