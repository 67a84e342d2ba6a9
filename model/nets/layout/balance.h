// Cuts a list of weights into balanced runs.
#pragma once
#include <cstdint>
#include <vector>

namespace isobar::nets {

/// First index of each of `stages` runs, none empty: the heaviest is as light as possible, and the sum of
/// squares least among those. Exact, by dynamic programming over (stages, weights).
std::vector<int32_t> balanced(const std::vector<double>& weights, int64_t stages);

}  // namespace isobar::nets
