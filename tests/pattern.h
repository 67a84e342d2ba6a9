// Search by POSIX extended regular expressions (regcomp), because std::regex is slow to compile.
//
//   found(page, ">[0-9]+<");   replaced(text, "bytes: [0-9]+", "bytes: 8");
#pragma once
#include <string>

namespace isobar {

/// Position and length of the first match; npos: no match.
struct Match {
  size_t begin = std::string::npos, size = 0;
};
Match first_match(const std::string& text, const std::string& pattern);
bool found(const std::string& text, const std::string& pattern);
/// The text with every match replaced.
std::string replaced(const std::string& text, const std::string& pattern, const std::string& by);

}  // namespace isobar
