#include "tests/pattern.h"

#include <regex.h>

#include <stdexcept>

namespace isobar {
namespace {

class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    if (regcomp(&compiled_, text.c_str(), REG_EXTENDED) != 0) throw std::logic_error("no pattern: " + text);
  }
  ~Pattern() { regfree(&compiled_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  /// The first match at or after `from`.
  Match in(const std::string& text, size_t from) const {
    regmatch_t at{static_cast<regoff_t>(from), static_cast<regoff_t>(text.size())};
    if (regexec(&compiled_, text.c_str(), 1, &at, REG_STARTEND | (from > 0 ? REG_NOTBOL : 0)) != 0) return {};
    return {static_cast<size_t>(at.rm_so), static_cast<size_t>(at.rm_eo - at.rm_so)};
  }

 private:
  regex_t compiled_{};
};

}  // namespace

Match first_match(const std::string& text, const std::string& pattern) {
  return Pattern(pattern).in(text, 0);
}

bool found(const std::string& text, const std::string& pattern) {
  return first_match(text, pattern).begin != std::string::npos;
}

std::string replaced(const std::string& text, const std::string& pattern, const std::string& by) {
  const Pattern p(pattern);
  std::string out;
  size_t done = 0;
  for (Match m = p.in(text, 0); m.begin != std::string::npos && m.size > 0; m = p.in(text, done)) {
    out += text.substr(done, m.begin - done) + by;
    done = m.begin + m.size;
  }
  return out + text.substr(done);
}

}  // namespace isobar
