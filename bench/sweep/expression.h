// Boolean expressions over a run's keys: "tp * pp > 4 and amp == none".
//
//   const Expression e("layout.tp > 2 or policy.amp == bf16");
//   e.holds([&](const std::string& key) { return value_of(key); });
//
// Precedence from lowest: or; and; not; == != < <= > >=; + -; * / %; unary -; (…). A name is a key if it
// contains a dot or is a short name (tp, amp, gpus …; full_key in compose.h), else a word to compare with, as
// is text in quotes. Numbers, words and true/false compare only with their own type.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace isobar::sweep {

/// An error in an expression, to be completed with its place by the caller.
struct BadExpression {
  std::string what, mend;
};

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

}  // namespace isobar::sweep
