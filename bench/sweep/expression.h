// Conditions on a run as people write them: "tp * pp > 4 and amp == none".
//
//   const Expression e("layout.tp > 2 or policy.amp == bf16");
//   e.holds([&](const std::string& key) { return value_of(key); });
//
// From loosest to tightest: or; and; not; == != < <= > >=; + -; * / %; unary -; (…). A name is the key of a
// run where it holds a dot or is one of the short names (tp, amp, gpus …; full_key in compose.h), else a word
// to compare with, as text in quotes is. Numbers, words and true/false each compare with their like only.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace isobar {

/// Says what is wrong with an expression, for whoever knows where it stands.
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
  /// Throws BadExpression for an expression that is no condition, and for what cannot be compared or
  /// computed.
  bool holds(const Lookup& lookup) const;
  /// The same of every part, also of those on which the answer does not depend.
  void check(const Lookup& lookup) const;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace isobar
