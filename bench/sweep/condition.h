// Conditions that select runs in `exclude:` and `when:` rules of a sweep file.
//
//   {policy.amp: bf16, gpus: ">= 4"}          # every key holds its value, one of its values, or is in bounds
//   "layout.tp * layout.pp > 4"               # or an Expression
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::sweep {

/// An error in an expression, to be completed with its place by the caller.
struct BadExpression {
  std::string what, mend;
};

/// A boolean expression over a run's keys: "tp * pp > 4 and amp == none".
/// Precedence from lowest: or; and; not; == != < <= > >=; + -; * / %; unary -; (…). A name is a key if it
/// contains a dot or is a short name (tp, amp, gpus …; full_key in compose.h), else a word to compare with,
/// as is text in quotes. Numbers, words and true/false compare only with their own type.
class Expression {
 public:
  using Value = std::variant<bool, double, std::string>;
  using Lookup = std::function<Value(const std::string& key)>;  // by full key; may throw BadExpression
  struct Node;

  /// Throws BadExpression.
  explicit Expression(const std::string& text);
  /// Throws BadExpression if the expression is not boolean, or operands cannot be compared or computed.
  bool holds(const Lookup& lookup) const;
  /// The same without short circuit, to validate every part.
  void check(const Lookup& lookup) const;

 private:
  std::shared_ptr<const Node> root_;
};

/// A bound such as ">= 4".
struct Bound {
  std::string op;  // < <= > >=
  double limit = 0;
  bool holds(const nlohmann::json& value) const;
};
/// Parses a condition's value; unset if it is a plain value.
std::optional<Bound> bound_of(const nlohmann::json& value);

struct Condition {
  std::string place;  // place in the file, for errors: "exclude[0]"
  std::vector<std::pair<std::string, std::vector<nlohmann::json>>> keys;  // all must hold
  std::optional<Expression> expression = std::nullopt;

  /// `spec`: to_json of a run. Throws ConfigError if an expression cannot compare its operands.
  bool holds(const nlohmann::json& spec, int64_t ranks, const std::string& file) const;
};

/// Value of a key in a run (to_json) on this number of ranks; null if its net does not have the key.
nlohmann::json value_of(const nlohmann::json& spec, int64_t ranks, const std::string& key);
/// Throws ConfigError for keys that this run does not have, and for operands that cannot be compared.
void check_expression(const Condition& c, const RunSpec& example, const std::string& file);

}  // namespace isobar::sweep
