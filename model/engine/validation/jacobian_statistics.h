// Statistics of a net's Jacobians over samples during training (normalised inputs and outputs).
//
//   const JacobianRecord r = statistics_of(matrices, outputs, inputs);     // each [outputs, inputs]
#pragma once
#include <vector>

#include "model/records/records.h"

namespace isobar::engine {

/// frobenius, condition: means over the samples of |J|_F and of the ratio of largest to smallest singular
/// value (absent if one is 0); mean, std, max: of |dy/dx| over all elements, std of dy/dx itself;
/// sensitivity: mean |dy/dx| over samples and outputs, for each input.
records::JacobianRecord statistics_of(const std::vector<std::vector<float>>& samples, int64_t outputs,
                                      int64_t inputs);

}  // namespace isobar::engine
