// Suggestions for a mistyped word.
//
//   did_you_mean("layot.tp", keys, "see --help")    // "did you mean 'layout.tp'?"; so for "tp" alone
#pragma once
#include <string>
#include <vector>

namespace isobar {

/// The allowed word with the least edit distance, however large; "" where none is allowed.
std::string nearest(const std::string& word, const std::vector<std::string>& allowed);

/// The three nearest, nearest first: "a, b, c".
std::string nearest_few(const std::string& word, std::vector<std::string> allowed);

/// "did you mean 'x'?" where an allowed word is near enough, else `otherwise`.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& allowed,
                         const std::string& otherwise);

}  // namespace isobar
