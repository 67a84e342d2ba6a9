#include "model/base/text/rounded.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace isobar {

int last_place(const Known& k) {
  const double half = 0.5 * (k.upper - k.lower);
  if (!(half > 0)) return static_cast<int>(std::floor(std::log10(std::max(std::abs(k.value), 1e-300)))) - 3;
  const int first = static_cast<int>(std::floor(std::log10(half) + 1e-12));
  return half / std::pow(10, first) < 3.55 ? first - 1 : first;
}

std::string rounded(double value, int place) {
  const double unit = std::pow(10, place);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", std::max(0, -place), std::round(value / unit) * unit);
  return text;
}

namespace {

/// The value or an end, with at least its first digit where all are positive: none is "0", however wide the
/// interval.
std::string rounded_of(const Known& k, double value) {
  const int place = last_place(k);
  return rounded(
      value, k.lower > 0 ? std::min(place, static_cast<int>(std::floor(std::log10(value) + 1e-12))) : place);
}

}  // namespace

std::string rounded(const Known& k) {
  return rounded_of(k, k.value);
}

std::string with_interval(const Known& k) {
  return rounded_of(k, k.value) + " (" + rounded_of(k, k.lower) + " to " + rounded_of(k, k.upper) + ")";
}

std::string rounded_part(double part, const Known& whole) {
  return part == 0 ? "0" : rounded(whole.scaled(part / whole.value));
}

}  // namespace isobar
