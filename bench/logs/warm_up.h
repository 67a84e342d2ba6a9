// Which of the first steps are warm-up: they compile, allocate, connect and fill caches.
//
//   const WarmUp w = warm_up({9.1, 2.0, 0.5, 0.5, 0.6});       // 2 steps
//   w.text;      // "the first 2 of 5 step times are warm-up: …"
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace isobar::logs {

struct WarmUp {
  size_t steps = 0;
  std::string text;  // the rule and its result, for the reader of a result
};

/// The first step, and those right behind it that take more than kWarmUpFactor medians; of one step, none.
WarmUp warm_up(const std::vector<double>& seconds);

}  // namespace isobar::logs
