// The two halves of validate() (spec.h): single values, and their combinations. A sweep needs them apart: a
// value that no run can have is an error, a combination that a net cannot take is skipped.
//
//   validate_values(run_spec_from_json({{"policy", {{"amp", "bf16"}}}}, file));
#pragma once
#include "model/base/spec/spec.h"

namespace isobar {

/// Upper bound on layout.dp * tp * cp * pp.
inline constexpr int64_t kMostRanks = 1 << 20;

/// Throws ConfigError for a value out of its range and for an unknown name; does not check combinations.
void validate_values(const RunSpec& spec);

}  // namespace isobar
