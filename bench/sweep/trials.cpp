#include "bench/sweep/trials.h"

#include <algorithm>
#include <map>
#include <set>

#include "model/base/error.h"
#include "model/base/hash.h"
#include "model/base/rng.h"
#include "model/nets/legal_layout.h"

namespace isobar {
namespace {

using nlohmann::json;

void assign(json& j, const std::string& key, const json& value) {
  const size_t dot = key.find('.');
  j[key.substr(0, dot)][key.substr(dot + 1)] = value;
}

// The value that a resolved run has under a sweep key.
json value_of(const json& spec, int64_t ranks, const std::string& key) {
  if (key == kRanksKey) return ranks;
  const size_t dot = key.find('.');
  return spec.at(key.substr(0, dot)).at(key.substr(dot + 1));
}

bool excluded(const SweepSpec& sweep, const RunSpec& spec) {
  const json j = to_json(spec);
  return std::any_of(sweep.exclude.begin(), sweep.exclude.end(), [&](const Exclusion& rule) {
    return std::all_of(rule.begin(), rule.end(), [&](const auto& term) {
      return std::find(term.second.begin(), term.second.end(),
                       value_of(j, spec.layout.world(), term.first)) != term.second.end();
    });
  });
}

// base, then set, then the combination; the world size comes last because dp follows from it.
RunSpec resolve(const SweepSpec& sweep, const Assignments& combination) {
  std::map<std::string, json> values;
  for (const auto& [key, value] : sweep.set) values[key] = value;
  for (const auto& [key, value] : combination) values[key] = value;
  json j = sweep.base_json;
  for (const auto& [key, value] : values)
    if (key != kRanksKey) assign(j, key, value);
  RunSpec spec = run_spec_from_json(j, sweep.base);
  spec.run.out.clear();
  if (const auto it = values.find(kRanksKey); it != values.end()) {
    const int64_t ranks = it->second.get<int64_t>();
    const LayoutSpec& l = spec.layout;
    if (l.tp < 1 || l.cp < 1 || l.pp < 1) validate(spec);  // its own words about a size below 1
    // Divided one by one: the product of what people type may not be a number.
    int64_t left = ranks;
    for (const int64_t size : {l.tp, l.cp, l.pp}) left = left % size == 0 ? left / size : 0;
    if (left == 0)
      throw ConfigError(sweep.file, "gpus",
                        std::to_string(ranks) +
                            " cannot be shared by tp * cp * pp = " + std::to_string(l.tp) + " * " +
                            std::to_string(l.cp) + " * " + std::to_string(l.pp),
                        "use a multiple");
    spec.layout.dp = left;
  }
  validate(spec);
  check_layout(spec);
  return spec;
}

std::vector<Assignments> combinations(const SweepSpec& sweep) {
  std::vector<Assignments> all;
  int64_t count = sweep.axes.empty() && sweep.scaling.empty() && !sweep.include.empty() ? 0 : 1;
  const auto points = static_cast<int64_t>(std::max<size_t>(1, sweep.scaling.size()));
  constexpr int64_t kMost = 1'000'000;
  for (const Axis& axis : sweep.axes) {
    count *= static_cast<int64_t>(axis.values.size());
    if (count > kMost)
      throw ConfigError(sweep.file, "axes", "make more than a million combinations", "remove values");
  }
  if (count * points > kMost)
    throw ConfigError(sweep.file, "axes", "make more than a million combinations", "remove values");
  for (int64_t i = 0; i < count * points; ++i) {  // the last axis varies fastest
    Assignments one(sweep.axes.size());
    int64_t rest = i / points;
    for (size_t a = sweep.axes.size(); a-- > 0;) {
      const Axis& axis = sweep.axes[a];
      const auto n = static_cast<int64_t>(axis.values.size());
      one[a] = {axis.key, axis.values[rest % n]};
      rest /= n;
    }
    if (!sweep.scaling.empty()) {
      const Assignments& point = sweep.scaling[i % points];
      one.insert(one.end(), point.begin(), point.end());
      std::sort(one.begin(), one.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    all.push_back(std::move(one));
  }
  all.insert(all.end(), sweep.include.begin(), sweep.include.end());
  return all;
}

}  // namespace

std::string trial_id(const RunSpec& spec, int64_t repetition, int64_t repeat) {
  json j = to_json(spec);
  j["run"].erase("out");
  std::string text = j.dump() + "\nrepetition " + std::to_string(repetition);
  if (repeat > 0) text += "\nrepeat " + std::to_string(repeat);
  return sha256_hex(text).substr(0, 16);
}

std::string short_key(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

std::string show_value(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string label(const Assignments& axes) {
  std::string text;
  for (const auto& [key, value] : axes)
    text += (text.empty() ? "" : " ") + short_key(key) + "=" + show_value(value);
  return text.empty() ? "base" : text;
}

Matrix expand(const SweepSpec& sweep) {
  Matrix m;
  std::vector<Trial> once;  // one repetition
  std::set<std::string> seen;
  const bool any = std::any_of(sweep.axes.begin(), sweep.axes.end(), [](const Axis& a) { return a.any; });
  std::vector<Assignments> all = sweep.baselines;  // first, so that a double of one is the baseline
  const std::vector<Assignments> others = combinations(sweep);
  all.insert(all.end(), others.begin(), others.end());
  for (size_t at = 0; at < all.size(); ++at) {
    const Assignments& combination = all[at];
    RunSpec spec;
    try {
      spec = resolve(sweep, combination);
    } catch (const ConfigError& e) {
      if (any && at >= sweep.baselines.size()) {
        ++m.excluded;
        continue;
      }
      m.skipped.push_back({combination, e.what()});
      continue;
    }
    if (excluded(sweep, spec)) {
      ++m.excluded;
      continue;
    }
    const int64_t ranks = spec.layout.world();
    if (ranks < sweep.min_ranks || (sweep.max_ranks && ranks > sweep.max_ranks)) {
      const bool low = ranks < sweep.min_ranks;
      m.skipped.push_back(
          {combination, std::to_string(ranks) + " ranks are " +
                            (low ? "below constraints.min_ranks = " : "above constraints.max_ranks = ") +
                            std::to_string(low ? sweep.min_ranks : sweep.max_ranks)});
      continue;
    }
    if (!seen.insert(trial_id(spec, 0)).second) {
      ++m.duplicates;
      continue;
    }
    once.push_back({.id = "",
                    .repetition = 0,
                    .spec = std::move(spec),
                    .axes = combination,
                    .baseline = at < sweep.baselines.size()});
  }
  if (once.empty())
    throw ConfigError(
        sweep.file, "axes", "leave no combination that can be run",
        m.skipped.empty() ? "loosen `exclude:`" : "the first reason is: " + m.skipped[0].reason);
  const auto n = static_cast<int64_t>(once.size());
  // Repetitions are interleaved, so that a slow hour of the machine does not fall on one combination alone.
  for (int64_t r = 0; r < sweep.repetitions; ++r) {
    std::vector<int64_t> order(n);
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    if (sweep.random_order) order = permutation(n, sweep.seed, static_cast<uint64_t>(r));
    for (int64_t i : order) {
      Trial t = once[i];
      t.repetition = r;
      t.id = trial_id(t.spec, r);
      m.trials.push_back(std::move(t));
    }
  }
  return m;
}

}  // namespace isobar
