// The keys of a machine file: one row each, from which the reader's check of names and the JSON schema come.
//
//   machine_keys_below("accelerator.tiers.host")     // ranks, bandwidth, links, …
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobar::perf {

/// Names directly below a section; "": of the file. Coefficients and peaks are known by their own tables.
std::vector<std::string> machine_keys_below(const std::string& section);

/// For `isobar config schema machine`. `cluster`: the schema of that section.
nlohmann::json machine_schema(nlohmann::json cluster);

}  // namespace isobar::perf
