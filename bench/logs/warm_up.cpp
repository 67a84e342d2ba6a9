#include "bench/logs/warm_up.h"

#include "model/base/step_stats.h"

namespace isobar::logs {
namespace {

constexpr double kWarmUpFactor = 1.5;

}  // namespace

WarmUp warm_up(const std::vector<double>& seconds) {
  if (seconds.size() < 2) return {0, "no step time is left out as warm-up: there are fewer than 2"};
  const double usual = quantile(seconds, 0.5);
  size_t n = 1;
  while (n + 1 < seconds.size() && seconds[n] > kWarmUpFactor * usual) ++n;
  const std::string all = std::to_string(seconds.size()) + " step times ";
  return {n,
          (n == 1 ? "the first of " + all + "is" : "the first " + std::to_string(n) + " of " + all + "are") +
              " left out as warm-up: the first, and those right behind it above 1.5 medians"};
}

}  // namespace isobar::logs
