// Where to cut a list of weights.
#pragma once
#include <cstdint>
#include <vector>

namespace isobar {

/// Where each of so many stages begins, each with one weight at least, so that the heaviest is as light as
/// can be, and the sum of squares least among those. Exact, by dynamic programming over (stages, weights).
std::vector<int32_t> balanced(const std::vector<double>& weights, int64_t stages);

}  // namespace isobar
