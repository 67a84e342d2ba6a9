// What is tracked of Jacobians over samples while a net trains (normalised on both sides).
//
//   const JacobianRecord r = statistics_of(matrices, outputs, inputs);     // each [outputs, inputs]
#pragma once
#include <vector>

#include "model/records/records.h"

namespace isobar {

/// frobenius, condition: means over the samples of |J|_F and of the largest over the smallest singular value
/// (absent where one is 0); mean, std, max: of |dy/dx| over all elements, std of dy/dx itself; sensitivity:
/// of each input, the mean of |dy/dx| over samples and outputs.
JacobianRecord statistics_of(const std::vector<std::vector<float>>& samples, int64_t outputs, int64_t inputs);

}  // namespace isobar
