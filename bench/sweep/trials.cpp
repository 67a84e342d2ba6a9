#include "bench/sweep/trials.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "bench/sweep/naming.h"
#include "model/base/error.h"
#include "model/base/hash.h"
#include "model/base/progress.h"
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
  if (sweep.exclude.empty()) return false;
  const json j = to_json(spec);
  return std::any_of(sweep.exclude.begin(), sweep.exclude.end(), [&](const Exclusion& rule) {
    return std::all_of(rule.begin(), rule.end(), [&](const auto& term) {
      const json value = value_of(j, spec.layout.world(), term.first);
      return std::any_of(term.second.begin(), term.second.end(), [&](const json& one) {
        const std::optional<Bound> bound = bound_of(one);
        return bound ? bound->holds(value) : one == value;
      });
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

// Baselines first, so that a double of one is the baseline; then every combination of the axes, the last of
// which varies fastest; then what the file includes.
class Combinations {
 public:
  explicit Combinations(const SweepSpec& sweep) : sweep_(sweep) {
    const bool none = sweep.axes.empty() && sweep.zipped.empty() && !sweep.include.empty();
    double all = none ? 0 : 1;
    for (const auto& points : sweep.zipped) all *= static_cast<double>(points.size());
    for (const Axis& axis : sweep.axes) all *= static_cast<double>(axis.values.size());
    all += static_cast<double>(sweep.baselines.size() + sweep.include.size());
    if (all > kMostCombinations)
      throw ConfigError(sweep.file, "axes",
                        "make " + number(all) + " combinations, more than " + number(kMostCombinations),
                        "remove values, or make several sweeps of it");
    crossed_ = static_cast<int64_t>(all) - baselines() - static_cast<int64_t>(sweep.include.size());
  }

  int64_t baselines() const { return static_cast<int64_t>(sweep_.baselines.size()); }
  int64_t size() const { return baselines() + crossed_ + static_cast<int64_t>(sweep_.include.size()); }

  Assignments operator[](int64_t i) const {
    if (i < baselines()) return sweep_.baselines[i];
    i -= baselines();
    return i < crossed_ ? crossed(i) : sweep_.include[i - crossed_];
  }

 private:
  static std::string number(double v) { return json(static_cast<uint64_t>(std::min(v, 0x1p63))).dump(); }

  Assignments crossed(int64_t i) const {
    Assignments one(sweep_.axes.size());
    int64_t rest = i;
    const auto next = [&rest](size_t values) {
      const auto n = static_cast<int64_t>(values), at = rest % n;
      rest /= n;
      return at;
    };
    for (size_t k = sweep_.zipped.size(); k-- > 0;) {
      const Assignments& point = sweep_.zipped[k][next(sweep_.zipped[k].size())];
      one.insert(one.end(), point.begin(), point.end());
    }
    for (size_t a = sweep_.axes.size(); a-- > 0;)
      one[a] = {sweep_.axes[a].key, sweep_.axes[a].values[next(sweep_.axes[a].values.size())]};
    std::sort(one.begin(), one.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return one;
  }

  const SweepSpec& sweep_;
  int64_t crossed_ = 0;
};

// Without its numbers: "8 heads are not divided by 16" and "... by 32" are one reason.
std::string kind_of(const std::string& reason) {
  std::string out;
  for (const char c : reason)
    if (!std::isdigit(static_cast<unsigned char>(c)))
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  return out;
}

void refuse_too_many(const SweepSpec& sweep, int64_t combinations) {
  if (combinations > kMostTrials / sweep.repetitions)
    throw ConfigError(sweep.file, sweep.repetitions > 1 ? "repetitions" : "axes",
                      "make more than " + std::to_string(kMostTrials) + " trials" +
                          (sweep.repetitions > 1 ? ": " + std::to_string(sweep.repetitions) + " times " +
                                                       std::to_string(combinations) + " combinations or more"
                                                 : ""),
                      "remove values, or make several sweeps of it");
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

void name_trials(std::vector<Trial>& trials) {
  std::vector<json> axes;
  axes.reserve(trials.size());
  for (const Trial& t : trials) axes.push_back(object_of(t.axes));
  std::vector<Nameable> all;
  all.reserve(trials.size());
  for (size_t i = 0; i < trials.size(); ++i)
    all.push_back({.spec = &trials[i].spec,
                   .axes = &axes[i],
                   .repetition = trials[i].repetition,
                   .again = !trials[i].repeats.empty()});
  Names names = name_by_difference(all);
  for (size_t i = 0; i < trials.size(); ++i) trials[i].name = std::move(names.labels[i]);
}

json object_of(const Assignments& axes) {
  json j = json::object();
  for (const auto& [key, value] : axes) j[key] = value;
  return j;
}

std::string label(const Assignments& axes) {
  std::string text;
  for (const auto& [key, value] : axes)
    text += (text.empty() ? "" : " ") + short_key(key) + "=" + show_value(value);
  return text.empty() ? "base" : text;
}

Matrix expand(const SweepSpec& sweep, bool progress) {
  Matrix m;
  std::vector<Trial> once;  // one repetition
  std::set<std::string> seen;
  const Combinations all(sweep);
  constexpr int64_t kQuick = 10'000;  // in a second or two
  Progress bar("combinations", all.size(), progress && all.size() > kQuick);
  for (int64_t at = 0; at < all.size(); ++at) {
    if (at % 256 == 0) bar.update(at, std::to_string(once.size()) + " can be run");
    const Assignments combination = all[at];
    RunSpec spec;
    try {
      spec = resolve(sweep, combination);
    } catch (const ConfigError& e) {
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
                    .baseline = at < all.baselines()});
    refuse_too_many(sweep, static_cast<int64_t>(once.size()));
  }
  bar.update(all.size());
  bar.finish();
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
  name_trials(m.trials);
  return m;
}

std::vector<SkipReason> skip_reasons(const Matrix& matrix) {
  std::vector<SkipReason> out;
  std::map<std::string, size_t> known;
  for (const Skipped& s : matrix.skipped) {
    if (s.forecast) continue;
    const auto [at, fresh] = known.try_emplace(kind_of(s.reason), out.size());
    if (fresh) out.push_back({s.reason, s.axes});
    ++out[at->second].count;
  }
  return out;
}

}  // namespace isobar
