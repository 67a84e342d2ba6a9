// Reads and validates the values of a sweep file; an error names file, key and fix.
#pragma once
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/sweep/compose.h"
#include "bench/sweep/condition.h"
#include "bench/sweep/spec.h"
#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/spec/spec.h"
#include "model/base/spec/validate.h"
#include "model/plan/layout.h"

namespace isobar::sweep {

class SweepReader {
 public:
  using json = nlohmann::json;

  SweepReader(const json& j, const std::string& file) : j_(j), file_(file) {}

  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& mend) const {
    throw ConfigError(file_, key, what, mend);
  }

  int64_t integer(const json& at, const std::string& key, const std::string& shown, int64_t fallback,
                  int64_t low, int64_t high) const {
    if (!at.contains(key)) return fallback;
    const json& v = at[key];
    if (!v.is_number_integer()) fail(shown, "is " + v.dump() + ", not a whole number", "give a whole number");
    const auto value = v.get<int64_t>();
    if (value < low || value > high)
      fail(shown, "is " + v.dump() + ", outside " + std::to_string(low) + " to " + std::to_string(high),
           "give a number in that range");
    return value;
  }

  double share(const std::string& key, double high) const {
    if (!j_.contains(key)) return 0;
    const json& v = j_[key];
    if (!v.is_number() || !(v.get<double>() >= 0 && v.get<double>() <= high))
      fail(key, "is " + v.dump() + ", not a share from 0 to " + json(high).dump(), "e.g. 0.02");
    return v.get<double>();
  }

  double seconds(const std::string& key, double fallback, bool zero_allowed) const {
    if (!j_.contains(key)) return fallback;
    const json& v = j_[key];
    if (!v.is_number()) fail(key, "is " + v.dump() + ", not a number of seconds", "e.g. 600");
    const auto value = v.get<double>();
    if (!(value > 0 || (zero_allowed && value == 0)) || value > 1e8)
      fail(key, "is " + v.dump() + " s", zero_allowed ? "give seconds, or 0 for never" : "give more than 0");
    return value;
  }

  // Flattens nested maps to dotted keys, completes short names, and checks types against the run
  // specification.
  Assignments assignments(const json& v, const std::string& shown) const {
    if (!v.is_object()) fail(shown, "does not hold a map of keys", "write e.g. policy.amp: bf16");
    std::map<std::string, json> flat;
    flatten(v, "", shown, flat);
    Assignments out;
    for (const auto& [key, value] : flat) {
      check_value(key, value, shown);
      out.emplace_back(key, value);
    }
    return out;
  }

  std::vector<Axis> axes(const json& v, const std::string& section) const {
    if (!v.is_object()) fail(section, "does not hold a map of keys", "write e.g. policy.amp: [none, bf16]");
    std::map<std::string, json> flat;
    flatten(v, "", section, flat);
    std::vector<Axis> out;
    for (const auto& [key, list] : flat) {
      const std::string shown = section + "." + (key == kRanksKey ? "gpus" : key);
      Axis axis{key, {}};
      // A key whose value is a list (data.variables) needs a list of lists.
      if (list.is_array())
        axis.values.assign(list.begin(), list.end());
      else
        axis.values = {list};
      if (list == "any" && key == "layout.dp")
        fail(shown, "is any, but follows from the others", "leave it out: dp = gpus / (tp * cp * pp)");
      axis.any = list == "any" &&
                 (key == kRanksKey || key == "layout.tp" || key == "layout.cp" || key == "layout.pp");
      if (axis.any) axis.values = {1};  // placeholder until the world sizes are known
      if (axis.values.empty()) fail(shown, "is an empty list", "give at least one value, or remove the axis");
      for (size_t i = 0; i < axis.values.size(); ++i) {
        check_value(key, axis.values[i], section);
        if (std::find(axis.values.begin(), axis.values.begin() + i, axis.values[i]) !=
                axis.values.begin() + i &&
            !section.starts_with("zip"))
          fail(shown, "lists " + axis.values[i].dump() + " twice", "keep one; use `repetitions:` to repeat");
      }
      out.push_back(std::move(axis));
    }
    return out;
  }

  // World sizes in ascending order: [1, 2, 4].
  std::vector<int64_t> sizes(const std::string& key) const {
    const json& v = j_[key];
    std::vector<int64_t> out;
    if (v.is_array())
      for (const json& one : v)
        if (one.is_number_integer() && one.get<int64_t>() > (out.empty() ? 0 : out.back()))
          out.push_back(one.get<int64_t>());
    if (!v.is_array() || v.empty() || out.size() != v.size() || out.back() > kMostRanks)
      fail(key,
           "is " + v.dump().substr(0, 80) + ", not a growing list of world sizes up to " +
               std::to_string(kMostRanks),
           "e.g. [1, 2, 4, 8]");
    return out;
  }

  // A map of keys or an expression.
  Condition condition(const json& v, const std::string& shown) const {
    Condition out{.place = shown, .keys = {}};
    const bool text = v.is_string();
    if (!text && (!v.is_object() || v.empty()))
      fail(shown, "is no map of keys and no expression",
           "write e.g. {gpus: 2, policy.amp: bf16} or layout.tp * layout.pp > 4");
    if (text) {
      try {
        out.expression.emplace(v.get<std::string>());
      } catch (const BadExpression& e) {
        fail(shown, e.what, e.mend);
      }
      return out;
    }
    std::map<std::string, json> flat;
    flatten(v, "", shown, flat);
    for (const auto& [key, value] : flat) {
      std::vector<json> any = value.is_array() ? value.get<std::vector<json>>() : std::vector<json>{value};
      for (const json& one : any) {
        const std::optional<Bound> bound = bound_of(one);
        // Bounds apply to integer keys only, because other keys have no order
        check_value(key, bound ? json(static_cast<int64_t>(bound->limit)) : one, shown);
      }
      out.keys.emplace_back(key, std::move(any));
    }
    return out;
  }

 private:
  void flatten(const json& v, const std::string& prefix, const std::string& shown,
               std::map<std::string, json>& out) const {
    for (const auto& [name, value] : v.items()) {
      std::string path = prefix;
      path += name;
      if (value.is_object()) {
        flatten(value, path.append("."), shown, out);
        continue;
      }
      const std::string key = full_key(path);
      if (!out.emplace(key, value).second)
        fail(std::string(shown).append(".").append(path), "is given twice (it means " + key + ")",
             "keep one of the two");
    }
  }

  void check_value(const std::string& key, const json& value, const std::string& shown) const {
    if (key == kRanksKey) {
      if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > kMostRanks)
        fail(shown + ".gpus", "is " + value.dump() + ", not a number of ranks",
             "give 1 to " + std::to_string(kMostRanks));
      return;
    }
    if (key == "run.out")
      fail(shown + "." + key, "is chosen by the sweep", "remove it: every trial has a directory of its own");
    const size_t dot = key.find('.');
    if (dot == std::string::npos || dot == 0) {
      std::vector<std::string> words = short_names();
      words.insert(words.end(), sweep_keys().begin(), sweep_keys().end());
      const std::string mend = did_you_mean(key, words, "");
      if (mend.empty())
        run_spec_from_json({{key, value}}, file_ + ": " + shown);  // raises an error that names similar keys
      fail(shown + "." + key, "is not a key of a run", mend);
    }
    json one;
    const std::vector<std::string> kinds = net_kinds_with(key);
    if (!kinds.empty()) one["net"]["kind"] = kinds[0];  // any kind that has the key
    one[key.substr(0, dot)][key.substr(dot + 1)] = value;
    // Rejects unknown keys, wrong types and values that are invalid in every combination.
    const RunSpec alone = run_spec_from_json(one, file_ + ": " + shown);
    validate_values(alone);
    if (key == "layout.order") plan::order_tokens(alone.layout, alone.file);
  }

  const json& j_;
  const std::string& file_;
};

}  // namespace isobar::sweep
