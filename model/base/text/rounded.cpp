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

std::string rounded(const Known& k) {
  return rounded(k.value, last_place(k));
}

std::string with_interval(const Known& k) {
  const int place = last_place(k);
  return rounded(k.value, place) + " (" + rounded(k.lower, place) + " to " + rounded(k.upper, place) + ")";
}

std::string rounded_part(double part, const Known& whole) {
  return part == 0 ? "0" : rounded(whole.scaled(part / whole.value));
}

}  // namespace isobar
