// The top-level keys of a sweep file: one row each, from which reading, suggestions and the JSON schema come.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobar::sweep {

/// Their names.
const std::vector<std::string>& sweep_keys();

/// For `isobar config schema sweep`.
nlohmann::json sweep_schema();

}  // namespace isobar::sweep
