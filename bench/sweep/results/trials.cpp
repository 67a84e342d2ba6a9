#include "bench/sweep/results/trials.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "model/base/error.h"
#include "model/base/rng.h"
#include "model/base/text/hash.h"
#include "model/base/text/progress.h"
#include "model/data/choice/sample_order.h"
#include "model/nets/layout/legal_layout.h"
#include "model/records/naming.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;

bool excluded(const SweepSpec& sweep, const RunSpec& spec) {
  if (sweep.exclude.empty()) return false;
  const json j = to_json(spec);
  return std::any_of(sweep.exclude.begin(), sweep.exclude.end(),
                     [&](const Condition& rule) { return rule.holds(j, spec.layout.world(), sweep.file); });
}

// Applies base, `set` and the combination; the world size is last because dp follows from it.
RunSpec assemble(const SweepSpec& sweep, const Assignments& combination) {
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
    // Divides by one size at a time, because the product of user input may overflow.
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
  return spec;
}

RunSpec resolve(const SweepSpec& sweep, const Assignments& combination) {
  RunSpec spec = assemble(sweep, combination);
  validate(spec);
  nets::check_layout(spec);
  return data::with_epochs_apart(spec);
}

void refuse_too_many_combinations(const SweepSpec& sweep, double all) {
  const auto number = [](double v) { return json(static_cast<uint64_t>(std::min(v, 0x1p63))).dump(); };
  if (all > kMostCombinations)
    throw ConfigError(sweep.file, "axes",
                      "make " + number(all) + " combinations, more than " + number(kMostCombinations),
                      "remove values, or make several sweeps of it");
}

// A combination that cannot be assembled meets no condition; the reason is reported where it is skipped.
bool holds_for(const Condition& c, const SweepSpec& sweep, const Assignments& combination) {
  RunSpec spec;
  try {
    spec = assemble(sweep, combination);
  } catch (const ConfigError&) {
    return false;
  }
  return c.holds(to_json(spec), spec.layout.world(), sweep.file);
}

// The combinations after applying the `when:` rules that match.
std::vector<Assignments> with_conditional_axes(const SweepSpec& sweep, const Assignments& combination) {
  std::vector<Assignments> all{combination};
  for (const ConditionalAxes& rule : sweep.when) {
    std::vector<Assignments> next;
    for (const Assignments& one : all) {
      if (!holds_for(rule.condition, sweep, one)) {
        next.push_back(one);
        continue;
      }
      double values = 1;
      for (const Axis& axis : rule.axes) values *= static_cast<double>(axis.values.size());
      refuse_too_many_combinations(sweep, values + static_cast<double>(next.size()));
      std::vector<Assignments> crossed{one};
      for (const Axis& axis : rule.axes) {
        std::vector<Assignments> longer;
        for (const Assignments& some : crossed)
          for (const json& value : axis.values) {
            longer.push_back(some);
            const auto place = std::lower_bound(
                longer.back().begin(), longer.back().end(), axis.key,
                [](const auto& assignment, const std::string& key) { return assignment.first < key; });
            if (place != longer.back().end() && place->first == axis.key)
              throw ConfigError(sweep.file, rule.condition.place,
                                "and a rule before it both set " + axis.key + " for " + label(one),
                                "let no combination meet both conditions");
            longer.back().insert(place, {axis.key, value});
          }
        crossed = std::move(longer);
      }
      next.insert(next.end(), crossed.begin(), crossed.end());
    }
    all = std::move(next);
  }
  return all;
}

// Order: baselines, so that a duplicate of one counts as the baseline; then all combinations of the axes, the
// last axis varying fastest; then `include:`.
class Combinations {
 public:
  explicit Combinations(const SweepSpec& sweep) : sweep_(sweep) {
    const bool none = sweep.axes.empty() && sweep.zipped.empty() && !sweep.include.empty();
    double all = none ? 0 : 1;
    for (const auto& points : sweep.zipped) all *= static_cast<double>(points.size());
    for (const Axis& axis : sweep.axes) all *= static_cast<double>(axis.values.size());
    all += static_cast<double>(sweep.baselines.size() + sweep.include.size());
    refuse_too_many_combinations(sweep, all);
    crossed_ = static_cast<int64_t>(all) - baselines() - static_cast<int64_t>(sweep.include.size());
  }

  int64_t baselines() const { return static_cast<int64_t>(sweep_.baselines.size()); }
  int64_t size() const { return baselines() + crossed_ + static_cast<int64_t>(sweep_.include.size()); }

  /// From the axes: neither a baseline nor included.
  bool is_crossed(int64_t i) const { return i >= baselines() && i < baselines() + crossed_; }

  Assignments operator[](int64_t i) const {
    if (i < baselines()) return sweep_.baselines[i];
    i -= baselines();
    return i < crossed_ ? crossed(i) : sweep_.include[i - crossed_];
  }

 private:
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

// Reason without its numbers, so that "8 heads are not divided by 16" and "... by 32" are one.
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
  std::vector<records::Nameable> all;
  all.reserve(trials.size());
  for (size_t i = 0; i < trials.size(); ++i)
    all.push_back({.spec = &trials[i].spec,
                   .axes = &axes[i],
                   .repetition = trials[i].repetition,
                   .again = !trials[i].repeats.empty()});
  records::Names names = records::name_by_difference(all);
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

namespace {

// Adds a combination to the trials of one repetition, or to the skipped ones with its reason.
class Gathering {
 public:
  Gathering(const SweepSpec& sweep, Matrix& m) : sweep_(sweep), m_(m) {}

  void add(const Assignments& combination, bool baseline) {
    RunSpec spec;
    try {
      spec = resolve(sweep_, combination);
    } catch (const ConfigError& e) {
      return skip(combination, e.what());
    }
    if (excluded(sweep_, spec)) {
      ++m_.excluded;
      return;
    }
    const int64_t ranks = spec.layout.world();
    if (ranks < sweep_.min_ranks || (sweep_.max_ranks && ranks > sweep_.max_ranks)) {
      const bool low = ranks < sweep_.min_ranks;
      return skip(combination,
                  std::to_string(ranks) + " ranks are " +
                      (low ? "below constraints.min_ranks = " : "above constraints.max_ranks = ") +
                      std::to_string(low ? sweep_.min_ranks : sweep_.max_ranks));
    }
    if (!seen_.insert(trial_id(spec, 0)).second) {
      ++m_.duplicates;
      return;
    }
    once.push_back(
        {.id = "", .repetition = 0, .spec = std::move(spec), .axes = combination, .baseline = baseline});
    refuse_too_many(sweep_, static_cast<int64_t>(once.size()));
  }

  std::vector<Trial> once;  // one repetition

 private:
  void skip(const Assignments& combination, const std::string& reason) {
    m_.skipped.push_back({combination, reason});
  }

  const SweepSpec& sweep_;
  Matrix& m_;
  std::set<std::string> seen_;
};

}  // namespace

Matrix expand(const SweepSpec& sweep, bool progress) {
  Matrix m;
  Gathering gathered(sweep, m);
  const Combinations all(sweep);
  constexpr int64_t kQuick = 10'000;  // takes a second or two
  Progress bar("combinations", all.size(), progress && all.size() > kQuick);
  double seen = 0;
  for (int64_t at = 0; at < all.size(); ++at) {
    if (at % 256 == 0) bar.update(at, std::to_string(gathered.once.size()) + " can be run");
    const Assignments combination = all[at];
    if (sweep.when.empty() || !all.is_crossed(at)) {
      gathered.add(combination, at < all.baselines());
      continue;
    }
    const std::vector<Assignments> several = with_conditional_axes(sweep, combination);
    seen += static_cast<double>(several.size());
    refuse_too_many_combinations(sweep, seen);
    for (const Assignments& one : several) gathered.add(one, false);
  }
  const std::vector<Trial>& once = gathered.once;
  bar.update(all.size());
  bar.finish();
  if (once.empty())
    throw ConfigError(
        sweep.file, "axes", "leave no combination that can be run",
        m.skipped.empty() ? "loosen `exclude:`" : "the first reason is: " + m.skipped[0].reason);
  const auto n = static_cast<int64_t>(once.size());
  // Repetitions are interleaved, so that a slow period of the machine does not affect one combination alone.
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

}  // namespace isobar::sweep
