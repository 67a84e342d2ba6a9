// Names of parameters by pattern: a whole name, or the beginning of one up to a dot; * stands for any
// characters, dots too.
//
//   matches("blocks.*.attn", "blocks.3.attn.proj.weight")   // true
//   matches("head", "heads.weight")                         // false
#pragma once
#include <algorithm>
#include <string_view>
#include <vector>

namespace isobar {

inline bool matches(std::string_view pattern, std::string_view name) {
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0, n = 0, star = kNone,
         from = 0;  // the last star, and where its match ends
  while (true) {
    if (p == pattern.size() && (n == name.size() || name[n] == '.')) return true;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, from = n;
    } else if (p < pattern.size() && n < name.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != kNone && from < name.size()) {  // the star matches one character more
      p = star + 1, n = ++from;
    } else {
      return false;
    }
  }
}

template <class Strings>
bool any_matches(const Strings& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return matches(p, name); });
}

}  // namespace isobar
