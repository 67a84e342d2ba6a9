// The top-level keys of a sweep file: one row each, from which reading, suggestions and the JSON schema come.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobar::sweep {

struct SweepKey {
  // text, whole, number, order; settings: a map of a run's keys; axes: of lists of them, or any; map: any
  // values
  enum class Form { text, whole, number, order, settings, axes, bounds };
  const char* name;
  Form form;
  bool list = false;  // a list of them
  const char* help;
};
const std::vector<SweepKey>& sweep_key_rows();
/// Their names.
const std::vector<std::string>& sweep_keys();

/// For `isobar config schema sweep`.
nlohmann::json sweep_schema();

}  // namespace isobar::sweep
