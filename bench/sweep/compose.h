// Combines a sweep file with words of the command line.
//
//   compose_sweep("vit.yaml", {"layout.tp=1,2,4", "policy.amp=none,bf16", "repetitions=3"})
//
// The file is a sweep, or a run configuration that becomes the base of one. A word with several values is an
// axis, with one value a setting of all trials; it replaces the file's entry for that key. Values are YAML:
// words, numbers, [lists].
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/sweep/sweep_keys.h"

namespace isobar::sweep {

/// The equivalent sweep file as JSON, with paths relative to `path`. Throws ConfigError.
nlohmann::json compose_sweep(const std::string& path, const std::vector<std::string>& words);
/// The same as YAML text for a file in `folder`.
std::string sweep_file_text(nlohmann::json sweep, const std::string& path, const std::string& folder);

/// Full key of a short name: gpus, tp, amp, batch …
std::string full_key(const std::string& name);
/// The names that full_key knows: gpus, tp, amp …
std::vector<std::string> short_names();

}  // namespace isobar::sweep
