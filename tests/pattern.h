// Texts searched by POSIX extended regular expressions (regcomp): std::regex takes three seconds to compile
// in every program that has it.
//
//   found(page, ">[0-9]+<");   replaced(text, "bytes: [0-9]+", "bytes: 8");
#pragma once
#include <string>

namespace isobar {

/// Where the first match begins and how many characters it has; npos: there is none.
struct Match {
  size_t begin = std::string::npos, size = 0;
};
Match first_match(const std::string& text, const std::string& pattern);
bool found(const std::string& text, const std::string& pattern);
/// With every match replaced.
std::string replaced(const std::string& text, const std::string& pattern, const std::string& by);

}  // namespace isobar
