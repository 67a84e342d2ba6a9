// A prediction with its interval.
#pragma once
#include <string>

namespace isobar {

struct Estimated {
  double value = 0, lower = 0, upper = 0;
  /// What is new to the fit and widens the interval most ("campaign", "model", ...; "": nothing), and how
  /// much of the variance is its own.
  std::string news{};
  double share = 0;
};

}  // namespace isobar
