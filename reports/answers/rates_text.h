// The factors of a prediction: the step's amounts, the machine file's prices for them, and the sources of
// those prices. `isobar predict --rates` shows it under the terms.
//
//   std::string s = rates_text(prediction.counts, machine);
//   nlohmann::json j = rates_json(prediction.counts, machine);
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "perfmodel/machine/machine.h"

namespace isobar::report {

/// `counts`: of the slowest rank's step, hidden time included, so the lines need not add up to the step.
/// Largest first; prices of calls, FLOPs and bytes only.
std::string rates_text(const perf::Counts& counts, const perf::Machine& machine);
nlohmann::json rates_json(const perf::Counts& counts, const perf::Machine& machine);

}  // namespace isobar::report
