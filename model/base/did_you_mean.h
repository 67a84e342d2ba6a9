// What a mistyped word may have been meant to be.
//
//   did_you_mean("layot.tp", keys, "see --help")    // "did you mean 'layout.tp'?"; so for "tp" alone
#pragma once
#include <string>
#include <vector>

namespace isobar {

/// "did you mean 'x'?" where an allowed word is near enough, else `otherwise`. yaml.h's nearest() always has
/// one.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& allowed,
                         const std::string& otherwise);

}  // namespace isobar
