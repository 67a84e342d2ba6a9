// Lines of a log, and numbers behind words in them. Launchers put ranks and times before a line, and
// terminals colours into it: words are looked for, not columns.
//
//   for (const std::string& line : log_lines(text))
//     if (auto ms = number_after(line, "elapsed time per iteration (ms):")) ...
#pragma once
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace isobar {

constexpr size_t kLongestLogLine = 1 << 20;  // bytes: no line of numbers is longer, the rest is left out

/// Without colours; a progress bar that returns to its line's begin ends a line each time.
inline std::vector<std::string> log_lines(const std::string& text) {
  std::vector<std::string> out(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
    } else if (c == '\n' || c == '\r') {
      if (!out.back().empty()) out.emplace_back();
    } else if (out.back().size() < kLongestLogLine) {
      out.back() += c;
    }
  }
  return out;
}

/// What stands behind `words`, blanks left out; none: they are not in the line.
inline std::optional<std::string> text_after(const std::string& line, const std::string& words) {
  size_t at = line.find(words);
  if (at == std::string::npos) return std::nullopt;
  at = line.find_first_not_of(" \t", at + words.size());
  return at == std::string::npos ? "" : line.substr(at);
}

/// The number behind `words`; a comma between thousands belongs to it.
inline std::optional<double> number_after(const std::string& line, const std::string& words) {
  const std::optional<std::string> rest = text_after(line, words);
  if (!rest) return std::nullopt;
  std::string digits;
  for (size_t i = 0; i < rest->size(); ++i) {
    const char c = (*rest)[i];
    const bool thousands = c == ',' && rest->find_first_not_of("0123456789", i + 1) == i + 4;
    if (c == ',' && !(thousands || rest->size() == i + 4)) break;
    if (c != ',') digits += c;
  }
  char* end = nullptr;
  const double v = std::strtod(digits.c_str(), &end);
  if (end == digits.c_str() || !std::isfinite(v)) return std::nullopt;
  return v;
}

}  // namespace isobar
