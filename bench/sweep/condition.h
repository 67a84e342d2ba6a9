// Which runs a rule of a sweep file is about: of `exclude:` and of `when:`.
//
//   {policy.amp: bf16, gpus: ">= 4"}          # every key holds its value, one of its values, or is in bounds
//   "layout.tp * layout.pp > 4"               # or an expression (expression.h)
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/sweep/expression.h"
#include "model/base/spec.h"

namespace isobar {

/// ">= 4": a bound that a number may be within.
struct Bound {
  std::string op;  // < <= > >=
  double limit = 0;
  bool holds(const nlohmann::json& value) const;
};
/// Of a condition's value; unset: it is a plain one.
std::optional<Bound> bound_of(const nlohmann::json& value);

struct Condition {
  std::string place;  // in the file, for errors: "exclude[0]"
  std::vector<std::pair<std::string, std::vector<nlohmann::json>>> keys;  // all must hold
  std::optional<Expression> expression = std::nullopt;

  /// `spec`: to_json of a run. Throws ConfigError for what an expression cannot compare.
  bool holds(const nlohmann::json& spec, int64_t ranks, const std::string& file) const;
};

/// Of a run (to_json) on so many ranks; null for a key that its net does not have.
nlohmann::json value_of(const nlohmann::json& spec, int64_t ranks, const std::string& key);
/// Refuses keys that this run does not have, and what cannot be compared. Throws ConfigError.
void check_expression(const Condition& c, const RunSpec& example, const std::string& file);

}  // namespace isobar
