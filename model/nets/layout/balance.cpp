#include "model/nets/layout/balance.h"

#include <algorithm>
#include <limits>

namespace isobar::nets {
namespace {

struct Balance {  // of some stages: the heaviest, and how unequal they are
  double most = std::numeric_limits<double>::infinity(), squares = 0;
  bool operator<(const Balance& o) const { return most < o.most || (most == o.most && squares < o.squares); }
};

}  // namespace

std::vector<int32_t> balanced(const std::vector<double>& weights, int64_t stages) {
  const auto n = static_cast<int64_t>(weights.size());
  std::vector<double> sum(n + 1, 0);
  for (int64_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + weights[i];
  std::vector<std::vector<Balance>> best(stages + 1, std::vector<Balance>(n + 1));
  std::vector<std::vector<int32_t>> from(stages + 1, std::vector<int32_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (int64_t s = 1; s <= stages; ++s)
    for (int64_t end = s; end <= n - (stages - s); ++end)
      for (int64_t begin = s - 1; begin < end; ++begin) {
        const double w = sum[end] - sum[begin];
        const Balance all{std::max(best[s - 1][begin].most, w), best[s - 1][begin].squares + w * w};
        if (all < best[s][end]) best[s][end] = all, from[s][end] = static_cast<int32_t>(begin);
      }
  std::vector<int32_t> begins(stages);
  for (int64_t s = stages, end = n; s > 0; --s) end = begins[s - 1] = from[s][end];
  return begins;
}

}  // namespace isobar::nets
