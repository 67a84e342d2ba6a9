#include "bench/sweep/condition.h"

#include <algorithm>
#include <charconv>

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

}  // namespace isobar::sweep
