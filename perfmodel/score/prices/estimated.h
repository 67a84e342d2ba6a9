// A prediction with its interval.
#pragma once
#include <string>

namespace isobar::perf {

struct Estimated {
  double value = 0, lower = 0, upper = 0;
  /// The new value that widens the interval most ("campaign", "model", ...; "": none), and its share of the
  /// variance.
  std::string news{};
  double share = 0;
};

}  // namespace isobar::perf
