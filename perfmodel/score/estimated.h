// A prediction with its interval.
#pragma once
#include <string>

#include "model/base/interval.h"

namespace isobar {

struct Estimated : Interval {
  /// The new value that widens the interval most ("campaign", "model", ...; "": none), and its share of the
  /// variance.
  std::string news{};
  double share = 0;
};

}  // namespace isobar
