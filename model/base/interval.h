// A number with its 80 % interval.
//
//   Interval step{.value = 1.2, .lower = 1.1, .upper = 1.4};
//   step.scaled(1e3), step.inverse(samples)                    // milliseconds; samples a second
#pragma once

namespace isobar {

struct Interval {
  double value = 0, lower = 0, upper = 0;
  Interval scaled(double by) const { return {value * by, lower * by, upper * by}; }
  /// The reciprocal: the ends change places.
  Interval inverse(double of = 1) const { return {of / value, of / upper, of / lower}; }
  bool holds(double x) const { return lower <= x && x <= upper; }
};

}  // namespace isobar
