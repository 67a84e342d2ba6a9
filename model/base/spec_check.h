// Checks of a spec: the first rule that does not hold is the one error that a user gets, with key and fix.
//
//   const SpecCheck check{spec};
//   check.at_least(spec.data.dt, 1, "data.dt");
#pragma once
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/spec.h"

namespace isobar {

struct SpecCheck {
  const RunSpec& s;
  void that(bool ok, const char* key, const std::string& what, const std::string& mend) const {
    if (!ok) throw ConfigError(s.file, key, what, mend);
  }
  void at_least(int64_t value, int64_t low, const char* key) const {
    that(value >= low, key, "is " + std::to_string(value) + ", below " + std::to_string(low),
         "give " + std::to_string(low) + " or more");
  }
  void at_most(int64_t value, int64_t high, const char* key) const {
    that(value <= high, key, "is " + std::to_string(value) + ", above " + std::to_string(high),
         "give " + std::to_string(high) + " or less");
  }
  /// Above 0, and what 32 bits hold with all their digits: a smaller number would count as 0 there.
  void in_floats(double value, const char* key, const std::string& mend) const {
    that(value > 0, key, "is not positive", mend);
    constexpr auto least = static_cast<double>(std::numeric_limits<float>::min()),
                   most = static_cast<double>(std::numeric_limits<float>::max());
    that(value >= least && value <= most, key, "is outside of what 32 bits hold, 1.2e-38 to 3.4e38", mend);
  }
  /// The same, or 0
  void zero_or_in_floats(double value, const char* key, const std::string& mend) const {
    that(value >= 0, key, "is negative", mend);
    if (value > 0) in_floats(value, key, mend);
  }
  void one_of(const std::string& value, const std::vector<std::string>& allowed, const char* key) const {
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    std::string list;
    for (const auto& a : allowed) list += (list.empty() ? "" : ", ") + a;
    that(false, key, "'" + value + "' is unknown", "use one of " + list);
  }
  void divides(int64_t d, int64_t n, const char* key, const std::string& of) const {
    if (n % d == 0) return;
    int64_t below = 1,
            above = n;  // among divisors up to a million and their partners: the user may type any number
    for (int64_t i = 1; i <= std::min<int64_t>(n / i, 1'000'000); ++i)
      if (n % i == 0)
        for (const int64_t one : {i, n / i}) {
          if (one < d) below = std::max(below, one);
          if (one > d) above = std::min(above, one);
        }
    that(false, key, std::to_string(d) + " does not divide " + of + " = " + std::to_string(n),
         "the nearest that do are " + std::to_string(below) + " and " + std::to_string(above));
  }
};

/// A size of a net, and its key
struct Sized {
  int64_t value;
  const char* key;
};
inline constexpr int64_t kMostSize = 1 << 17;

inline void at_least_one(std::initializer_list<Sized> sizes, const SpecCheck& check) {
  for (const auto& [value, key] : sizes) {
    check.at_least(value, 1, key);
    check.at_most(value, kMostSize, key);
  }
}

}  // namespace isobar
