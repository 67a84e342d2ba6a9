// YAML files with inheritance, turned into JSON, with errors that say where.
//
// `inherits: other.yaml` (relative to the file) is read first and overridden key by key. Scalars become JSON
// null, bool, integer, float or string by YAML 1.2's core rules ("None" is null, as NERSC's files write it);
// `<<: *name` merges a map. Bounds apply to the contents with aliases expanded: 4 MiB of text, 2^20 values,
// 64 levels, 16 files.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace isobar {

nlohmann::json load_yaml(const std::string& path);                            // throws ConfigError
nlohmann::json parse_yaml(const std::string& text, const std::string& file);  // no inheritance
/// Text that parse_yaml reads as `j`: a line for each key, lists of plain values on one line.
std::string to_yaml(const nlohmann::json& j);
/// Sets "a.b.c=value" in `j`: a list, a map or a quoted text in YAML's syntax; else the words as typed, null,
/// true, false or a number by the rules above. Throws ConfigError naming `--set`.
void apply_override(nlohmann::json& j, const std::string& assignment);
/// `over` replaces `base` key by key; maps merge, all else is replaced.
void merge_into(nlohmann::json& base, const nlohmann::json& over);

}  // namespace isobar
