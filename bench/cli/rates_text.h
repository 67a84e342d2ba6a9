// The factors of a prediction: the step's amounts, the machine file's prices for them, and the sources of
// those prices. `isobar predict --rates` prints it under the terms.
//
//   print_rates(prediction.counts, machine);
//   nlohmann::json j = rates_json(prediction.counts, machine);
#pragma once
#include <nlohmann/json.hpp>

#include "perfmodel/machine/machine.h"

namespace isobar {

/// `counts`: of the slowest rank's step, hidden time included, so the lines need not add up to the step.
/// Largest first; prices of calls, FLOPs and bytes only.
void print_rates(const Counts& counts, const Machine& machine);
nlohmann::json rates_json(const Counts& counts, const Machine& machine);

}  // namespace isobar
