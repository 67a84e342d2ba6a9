#include "bench/sweep/condition.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "bench/sweep/compose.h"
#include "bench/sweep/spec.h"
#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/text/yaml.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;

std::vector<std::string> keys_of(const json& spec) {
  std::vector<std::string> out{kRanksKey};
  for (const auto& [section, keys] : spec.items())
    if (keys.is_object())
      for (const auto& key : keys.items()) out.push_back(section + "." + key.key());
  return out;
}

Expression::Lookup lookup_in(const json& spec, int64_t ranks) {
  return [&spec, ranks](const std::string& key) -> Expression::Value {
    const json value = value_of(spec, ranks, key);
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    if (value.is_null())
      throw BadExpression{"names " + key + ", which is not a key of the run",
                          "did you mean " + nearest(key, keys_of(spec)) + "?"};
    throw BadExpression{"names " + key + ", which holds a list", "exclude it by {" + key + ": [[…]]}"};
  };
}

}  // namespace

bool Bound::holds(const json& value) const {
  if (!value.is_number()) return false;
  const auto x = value.get<double>();
  return op == "<" ? x < limit : op == "<=" ? x <= limit : op == ">" ? x > limit : x >= limit;
}

std::optional<Bound> bound_of(const json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto text = value.get<std::string>();
  const size_t number = text.find_first_not_of("<>= ");
  if (number == 0 || number == std::string::npos) return std::nullopt;
  Bound b{text.substr(0, text.find_last_of("<>=", number) + 1), 0};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + number, end, b.limit);
  const bool known = b.op == "<" || b.op == "<=" || b.op == ">" || b.op == ">=";
  if (!known || error != std::errc() || rest != end) return std::nullopt;
  return b;
}

json value_of(const json& spec, int64_t ranks, const std::string& key) {
  if (key == kRanksKey) return ranks;
  const size_t dot = key.find('.');
  const auto section = spec.find(key.substr(0, dot));
  if (section == spec.end() || !section->is_object()) return nullptr;
  const auto value = section->find(key.substr(dot + 1));
  return value == section->end() ? json(nullptr) : *value;
}

bool Condition::holds(const json& spec, int64_t ranks, const std::string& file) const {
  if (expression) try {
      return expression->holds(lookup_in(spec, ranks));
    } catch (const BadExpression& e) {
      throw ConfigError(file, place, e.what, e.mend);
    }
  return std::all_of(keys.begin(), keys.end(), [&](const auto& term) {
    const json value = value_of(spec, ranks, term.first);
    return std::any_of(term.second.begin(), term.second.end(), [&](const json& one) {
      const std::optional<Bound> bound = bound_of(one);
      return bound ? bound->holds(value) : one == value;
    });
  });
}

void check_expression(const Condition& c, const RunSpec& example, const std::string& file) {
  if (!c.expression) return;
  const json j = to_json(example);
  try {
    c.expression->check(lookup_in(j, example.layout.world()));
  } catch (const BadExpression& e) {
    throw ConfigError(file, c.place, e.what, e.mend);
  }
}

namespace {

constexpr const char* kExample = "write e.g. layout.tp > 2 and policy.amp == bf16";
constexpr int kDeepest = 200;  // most nested parentheses

enum class Kind { number, word, name, sign, end };
struct Token {
  Kind kind = Kind::end;
  std::string text;
  double number = 0;
};

bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool in_name(char c) {
  return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '.';
}

std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> out;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
    } else if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') {
      Token t{Kind::number, "", 0};
      const auto [rest, error] = std::from_chars(text.data() + i, text.data() + text.size(), t.number);
      const size_t end = static_cast<size_t>(rest - text.data());
      if (error != std::errc() || (end < text.size() && in_name(text[end])))
        throw BadExpression{"has no number at '" + text.substr(i, 20) + "'", kExample};
      t.text = text.substr(i, end - i);
      i = end;
      out.push_back(std::move(t));
    } else if (begins_name(c)) {
      size_t end = i;
      while (end < text.size() && in_name(text[end])) ++end;
      out.push_back({Kind::name, text.substr(i, end - i), 0});
      i = end;
    } else if (c == '\'' || c == '"') {
      const size_t end = text.find(c, i + 1);
      if (end == std::string::npos) throw BadExpression{"has a quote that does not end", kExample};
      out.push_back({Kind::word, text.substr(i + 1, end - i - 1), 0});
      i = end + 1;
    } else {
      const std::string two = text.substr(i, 2);
      const bool pair = two == "==" || two == "!=" || two == "<=" || two == ">=";
      if (!pair && std::string("<>+-*/%()").find(c) == std::string::npos)
        throw BadExpression{std::string("has '") + c + "', which means nothing here",
                            c == '=' ? "compare with ==" : kExample};
      out.push_back({Kind::sign, pair ? two : std::string(1, c), 0});
      i += pair ? 2 : 1;
    }
  }
  out.emplace_back();
  return out;
}

const char* kind_of(const Expression::Value& v) {
  return v.index() == 0 ? "true or false" : v.index() == 1 ? "a number" : "a word";
}

}  // namespace

struct Expression::Node {
  std::string sign;  // operator; "": a key or a value
  std::string key;   // "": a value
  Value value{};
  std::vector<std::shared_ptr<const Node>> of{};
};

namespace {

using Node = Expression::Node;
using Value = Expression::Value;
using NodePtr = std::shared_ptr<const Node>;

class Parser {
 public:
  explicit Parser(const std::string& text) : tokens_(tokens_of(text)) {}
  NodePtr whole() {
    NodePtr out = either();
    if (now().kind != Kind::end)
      throw BadExpression{"goes on with '" + now().text + "', where it should end", kExample};
    return out;
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  bool take(Kind kind, const std::string& text) {
    if (now().kind != kind || now().text != text) return false;
    ++at_;
    return true;
  }
  static NodePtr node(const std::string& sign, std::vector<NodePtr> of) {
    return std::make_shared<const Node>(Node{.sign = sign, .key = "", .value = {}, .of = std::move(of)});
  }
  template <class Next>
  NodePtr chain(Kind kind, const std::vector<std::string>& signs, const Next& next) {
    NodePtr left = next();
    for (bool more = true; more;) {
      more = false;
      for (const std::string& sign : signs)
        if (!more && take(kind, sign)) {
          left = node(sign, {left, next()});
          more = true;
        }
    }
    return left;
  }

  NodePtr either() {
    return chain(Kind::name, {"or"}, [this] { return both(); });
  }
  NodePtr both() {
    return chain(Kind::name, {"and"}, [this] { return negated(); });
  }
  NodePtr negated() {
    const Deeper deeper(depth_);
    if (take(Kind::name, "not")) return node("not", {negated()});
    return comparison();
  }
  NodePtr comparison() {
    NodePtr left = sum();
    for (const char* sign : {"==", "!=", "<=", ">=", "<", ">"})
      if (take(Kind::sign, sign)) return node(sign, {left, sum()});
    return left;
  }
  NodePtr sum() {
    return chain(Kind::sign, {"+", "-"}, [this] { return product(); });
  }
  NodePtr product() {
    return chain(Kind::sign, {"*", "/", "%"}, [this] { return primary(); });
  }
  NodePtr primary() {
    const Deeper deeper(depth_);
    if (take(Kind::sign, "-")) return node("negative", {primary()});
    if (take(Kind::sign, "(")) {
      NodePtr inside = either();
      if (!take(Kind::sign, ")")) throw BadExpression{"has a parenthesis that does not close", kExample};
      return inside;
    }
    const Token t = now();
    if (t.kind == Kind::sign || t.kind == Kind::end || t.text == "and" || t.text == "or")
      throw BadExpression{"lacks a value " + (t.kind == Kind::end ? "at its end" : "before '" + t.text + "'"),
                          kExample};
    ++at_;
    Node leaf;
    if (t.kind == Kind::number)
      leaf.value = t.number;
    else if (t.kind == Kind::word)
      leaf.value = t.text;
    else if (t.text == "true" || t.text == "false")
      leaf.value = t.text == "true";
    else if (const std::string key = full_key(t.text);
             key != t.text || key == kRanksKey || key.find('.') != std::string::npos)
      leaf.key = key;
    else
      leaf.value = t.text;
    return std::make_shared<const Node>(std::move(leaf));
  }

  struct Deeper {  // bounds recursion, so that parentheses cannot overflow the stack
    explicit Deeper(int& depth) : at(depth) {
      if (++at > kDeepest) throw BadExpression{"is nested too deeply", "write several rules"};
    }
    ~Deeper() { --at; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    int& at;
  };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

// `all`: evaluates every part, without short circuit.
class Evaluation {
 public:
  Evaluation(const Expression::Lookup& lookup, bool all) : lookup_(lookup), all_(all) {}

  Value of(const Node& n) const {
    if (n.sign.empty()) return n.key.empty() ? n.value : lookup_(n.key);
    if (n.sign == "not") return !condition(*n.of[0]);
    if (n.sign == "negative") return -number(*n.of[0], n.sign);
    const Node &a = *n.of[0], &b = *n.of[1];
    if (n.sign == "and" || n.sign == "or") {
      const bool first = condition(a), settled = first == (n.sign == "or");
      if (settled && !all_) return first;
      const bool second = condition(b);
      return settled ? first : second;
    }
    if (n.sign == "==" || n.sign == "!=") {
      const Value x = of(a), y = of(b);
      if (x.index() != y.index())
        throw BadExpression{std::string("compares ") + kind_of(x) + " with " + kind_of(y), kExample};
      return (x == y) == (n.sign == "==");
    }
    const double x = number(a, n.sign), y = number(b, n.sign);
    if (n.sign == "<") return x < y;
    if (n.sign == "<=") return x <= y;
    if (n.sign == ">") return x > y;
    if (n.sign == ">=") return x >= y;
    if (n.sign == "+") return x + y;
    if (n.sign == "-") return x - y;
    if (n.sign == "*") return x * y;
    return n.sign == "/" ? x / y : std::fmod(x, y);
  }

  bool condition(const Node& n) const {
    const Value v = of(n);
    if (const bool* b = std::get_if<bool>(&v)) return *b;
    throw BadExpression{std::string("gives ") + kind_of(v) + " where a condition should stand", kExample};
  }

 private:
  double number(const Node& n, const std::string& sign) const {
    const Value v = of(n);
    if (const double* d = std::get_if<double>(&v)) return *d;
    throw BadExpression{"has " + std::string(kind_of(v)) + " beside " + (sign == "negative" ? "-" : sign) +
                            ", which takes numbers",
                        kExample};
  }

  const Expression::Lookup& lookup_;
  bool all_;
};

}  // namespace

Expression::Expression(const std::string& text) : root_(Parser(text).whole()) {}

bool Expression::holds(const Lookup& lookup) const {
  return Evaluation(lookup, false).condition(*root_);
}

void Expression::check(const Lookup& lookup) const {
  Evaluation(lookup, true).condition(*root_);
}

}  // namespace isobar::sweep
