// A sweep as a file and words of the command line say it together.
//
//   compose_sweep("vit.yaml", {"layout.tp=1,2,4", "policy.amp=none,bf16", "repetitions=3"})
//
// The file is a sweep, or a run configuration, which is then the base of one. A word gives an axis where it
// holds several values, else a setting of all trials; it replaces what the file says of that key. Values are
// YAML's: words, numbers, [lists].
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobar {

/// What a sweep file would hold, with paths relative to `path`, as that file's are. Throws ConfigError.
nlohmann::json compose_sweep(const std::string& path, const std::vector<std::string>& words);
/// The same as text of a file in `folder`.
std::string sweep_file_text(nlohmann::json sweep, const std::string& path, const std::string& folder);

/// What a sweep file's top may hold.
const std::vector<std::string>& sweep_keys();
/// The key that is meant by a name that people type for the axes they sweep most: gpus, tp, amp, batch …
std::string full_key(const std::string& name);
/// The names that full_key completes: gpus, tp, amp …
std::vector<std::string> short_names();

}  // namespace isobar
