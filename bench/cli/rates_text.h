// What a prediction multiplies: the step's amounts, the prices that the machine file has for them, and where
// those prices are from. `isobar predict --rates` prints it under the terms.
//
//   print_rates(prediction.counts, machine);
//   nlohmann::json j = rates_json(prediction.counts, machine);
#pragma once
#include <nlohmann/json.hpp>

#include "perfmodel/machine/machine.h"

namespace isobar {

/// `counts`: of the slowest rank's step, hidden or not, so that the lines need not add up to the step.
/// Largest first; of prices of calls, FLOPs and bytes only.
void print_rates(const Counts& counts, const Machine& machine);
nlohmann::json rates_json(const Counts& counts, const Machine& machine);

}  // namespace isobar
