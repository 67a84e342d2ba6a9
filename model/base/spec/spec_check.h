// Checks of a spec: the first rule that does not hold is the one error that a user gets, with key and fix.
//
//   const SpecCheck check{spec};
//   check.at_least(spec.data.dt, 1, "data.dt");
#pragma once
#include <algorithm>
#include <string>

#include "model/base/error.h"
#include "model/base/spec/spec.h"

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

}  // namespace isobar
