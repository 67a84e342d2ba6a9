#include "perfmodel/score/scoreboard/referee.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/score/scoreboard/predictor.h"
#include "perfmodel/score/scoreboard/splits.h"

namespace isobar::perf {
namespace {

using Split = JudgeOptions::Split;
constexpr int kDraws = 5;  // of N random points
constexpr double kFastMfu = 15;
constexpr double kBytesOfGiB = 1073741824.0;

/// Baseline: spec-sheet prices and the slowdown of the machine family in other campaigns (of all machines, if
/// it is in none), over runs that accelerators rather than hosts limit. Campaigns are combined as in a
/// meta-analysis (DerSimonian & Laird 1986), weighted by how well one scale describes them. Uncertainty grows
/// with the log distance from products at the peak; the rate is learnt from campaigns held out.
class SpecScale {
 public:
  SpecScale(const Pool& pool, const std::string& campaign) {
    std::map<std::string, std::map<std::string, Mean>> said;  // campaign -> family
    for (const auto& [from, samples] : pool.by_campaign()) {
      if (from == campaign) continue;
      std::map<std::string, std::vector<double>> ratios;
      for (const Sample* s : samples)
        if (busy(s->counts, spec_prices()) > kBusy)
          ratios[s->run->gpu->chip()].push_back(s->log_s - std::log(step_seconds(s->counts, spec_prices())));
      said[from];
      for (auto& [family, r] : ratios) {
        const double within = (quantile(r, 0.75) - quantile(r, 0.25)) / 1.349;
        const double weight = 1 / (kBetween * kBetween + within * within);
        said[from][family] = {weight * quantile(r, 0.5), weight};
      }
    }
    std::vector<std::vector<double>> errors;
    for (const auto& [out, own] : said) {
      by_family_ = combined(said, out);
      std::vector<double>& e = errors.emplace_back();
      for (const Sample* s : pool.of(out)) {
        const double seconds = predicted(*s);
        e.push_back((s->log_s - std::log(seconds)) / sigma(*s, seconds));
      }
    }
    by_family_ = combined(said, "");
    tails_ = tails_of(errors);
  }
  Estimated predict(const Sample& s) const {
    const double seconds = predicted(s), one = sigma(s, seconds);
    return {seconds, std::max(seconds * std::exp(tails_.low * one), std::min(seconds, s.counts.ceiling_s)),
            seconds * std::exp(tails_.high * one), "campaign", 1};
  }

 private:
  static constexpr double kBusy = 2;
  static constexpr double kBetween = 0.2;  // log sigma between campaigns of a family
  static constexpr double kFar = 1 / 3.0;  // prior log sigma per e-fold above the ceiling
  struct Mean {
    double sum = 0, weight = 0;
    double value() const { return weight > 0 ? sum / weight : 0; }
  };
  /// By family; "": over all.
  static std::map<std::string, Mean> combined(const std::map<std::string, std::map<std::string, Mean>>& said,
                                              const std::string& without) {
    std::map<std::string, Mean> means;
    for (const auto& [from, families] : said)
      for (const auto& [family, m] : families)
        for (Mean* into : {&means[family], &means[""]}) {
          if (from == without) continue;
          into->sum += m.sum;
          into->weight += m.weight;
        }
    return means;
  }
  double predicted(const Sample& s) const {
    const auto f = by_family_.find(s.run->gpu->chip()), all = by_family_.find("");
    const bool known = f != by_family_.end() && f->second.weight > 0;
    const double scale = known ? f->second.value() : all != by_family_.end() ? all->second.value() : 0;
    return std::exp(scale) * step_seconds(s.counts, spec_prices());
  }
  static double sigma(const Sample& s, double seconds) {
    return std::hypot(kStepSeconds.misfit, kFar * std::log(seconds / s.counts.ceiling_s));
  }
  std::map<std::string, Mean> by_family_;
  Tails tails_;
};

/// One quantity of one table: its rows split, fitted and predicted.
class Judge {
 public:
  using Predict = std::function<void(size_t row, const OpenEstimate& e, const std::string& draw)>;

  Judge(const Quantity& quantity, const JudgeOptions& options) : quantity_(quantity), options_(options) {}

  /// The rows to score, and those that may also be fitted, without repetitions of scored rows.
  void read(std::vector<Sample> scored, std::vector<Sample> others) {
    samples_ = std::move(scored);
    std::set<std::string> own;
    for (const Sample& s : samples_) {
      own.insert(s.id);
      own.insert(s.values.at(""));
    }
    for (Sample& s : others)
      if (!own.contains(s.id) && !own.contains(s.values.at(""))) pool_.add(std::move(s));
  }

  void run(const Predict& predicted) {
    std::vector<size_t> all(samples_.size());
    std::iota(all.begin(), all.end(), 0);
    if (options_.split == Split::points) {
      std::mt19937 random(options_.seed);
      for (int draw = 0; draw < kDraws; ++draw) {
        std::vector<size_t> order = all;
        std::shuffle(order.begin(), order.end(), random);
        const auto n =
            static_cast<std::ptrdiff_t>(std::min(static_cast<size_t>(options_.points), order.size()));
        predict({order.begin(), order.begin() + n}, {order.begin() + n, order.end()}, predicted,
                " draw " + std::to_string(draw));
      }
    } else if (options_.split == Split::none || options_.spec_only) {
      predict({}, all, predicted, "");
    } else {
      for (const std::vector<size_t>& test : parts()) {
        const std::set<size_t> out(test.begin(), test.end());
        std::vector<size_t> train;
        std::copy_if(all.begin(), all.end(), std::back_inserter(train),
                     [&](size_t i) { return !out.contains(i); });
        predict(train, test, predicted, "");
      }
    }
  }

  /// Rows with open layouts, from all rows of their campaign that they may not repeat.
  void run(const std::vector<OpenRun>& open,
           const std::function<void(const OpenRun& row, const OpenEstimate& e)>& predicted) {
    std::map<std::string, std::vector<const OpenRun*>> by_campaign;
    for (const OpenRun& o : open) by_campaign[o.candidates.front().campaign].push_back(&o);
    for (const auto& [campaign, members] : by_campaign) {
      std::set<std::string> repeated;
      for (const OpenRun* o : members)
        for (const PublishedRun& r : o->candidates) repeated.insert(r.specification());
      Samples rows;
      const auto take = [&](const Sample& s) {
        if (s.campaign == campaign && !repeated.contains(s.values.at(""))) rows.push_back(&s);
      };
      if (options_.split != Split::points)
        for (const Sample* s : pool_.of(campaign)) take(*s);
      if (options_.split != Split::points && options_.split != Split::none)
        for (const Sample& s : samples_) take(s);
      const auto belief = [&, name = campaign](const ForeignEngine* engine) {
        return pool_.belief_without(quantity_, name, engine);
      };
      CampaignPredictor predictor(quantity_, rows, pool_.others_without(campaign), belief);
      for (const OpenRun* o : members) predicted(*o, predictor.predict(*o));
    }
  }

  const Sample& sample(size_t i) const { return samples_[i]; }
  bool prices_only = false;  // predicts with prices alone: the process cannot model outcomes

 private:
  static std::string value_of(const Sample& s, Split split) {
    return s.values.at(split == Split::layout  ? "layout"
                       : split == Split::gpus  ? "gpus"
                       : split == Split::model ? "model"
                                               : "");
  }

  std::vector<std::vector<size_t>> parts() const {
    if (options_.split == Split::up_to) {
      std::vector<size_t> beyond;
      for (size_t i = 0; i < samples_.size(); ++i)
        if (samples_[i].nodes > options_.nodes) beyond.push_back(i);
      return {beyond};
    }
    std::vector<std::string> values;
    for (const Sample& s : samples_) values.push_back(value_of(s, options_.split));
    return parts_of(values, most_parts(options_), options_.seed);
  }

  void predict(const std::vector<size_t>& train, const std::vector<size_t>& test, const Predict& predicted,
               const std::string& draw) {
    std::map<std::string, std::vector<size_t>> by_campaign;
    std::set<std::string> held_out;
    for (size_t i : test) {
      by_campaign[samples_[i].campaign].push_back(i);
      held_out.insert(value_of(samples_[i], options_.split));
    }
    for (const auto& [campaign, members] : by_campaign) {
      if (options_.spec_only && &quantity_ == &kStepSeconds) {
        const SpecScale scale(pool_, campaign);
        for (size_t i : members) predicted(i, relative(scale.predict(samples_[i]), samples_[i]), draw);
        continue;
      }
      Samples rows;
      for (size_t i : train)
        if (samples_[i].campaign == campaign) rows.push_back(&samples_[i]);
      if (options_.split != Split::points)
        for (const Sample* s : pool_.of(campaign))
          if (!held_out.contains(value_of(*s, options_.split)) &&
              (options_.split != Split::up_to || s->nodes <= options_.nodes))
            rows.push_back(s);
      const auto belief = [&, name = campaign](const ForeignEngine* engine) {
        return pool_.belief_without(quantity_, name, engine);
      };
      if (prices_only) {
        const PriceBelief others = belief(samples_[members.front()].run->runs_on);
        const Eigen::VectorXd prices = fitted_prices(quantity_, rows, others);
        for (size_t i : members) {
          const double value = std::exp(log_value(quantity_, samples_[i], prices));
          predicted(i, relative({value, value, value}, samples_[i]), draw);
        }
        continue;
      }
      if (!samples_[members.front()].run) {  // collectives
        const CampaignFit fit(quantity_, rows, belief(nullptr));
        for (size_t i : members) predicted(i, relative(fit.predict(samples_[i]), samples_[i]), draw);
        continue;
      }
      CampaignPredictor predictor(quantity_, rows, pool_.others_without(campaign), belief);
      for (size_t i : members) predicted(i, predictor.predict(*samples_[i].run), draw);
    }
  }

  static OpenEstimate relative(Estimated e, const Sample& s) {
    const double measured = std::exp(s.log_s);
    for (double* v : {&e.value, &e.lower, &e.upper}) *v /= measured;
    return {e};
  }

  const Quantity& quantity_;
  const JudgeOptions& options_;
  std::vector<Sample> samples_;
  Pool pool_;
};

using Runs = std::vector<const PublishedRun*>;

template <typename Make>
std::vector<Sample> samples_of(const Runs& runs, const Make& make) {
  std::vector<Sample> out;
  for (const PublishedRun* r : runs) out.push_back(make(*r));
  return out;
}
constexpr auto kTime = [](const PublishedRun& r) { return sample_of(r); };
constexpr auto kMemory = [](const PublishedRun& r) { return memory_sample_of(r); };

void judge_time(const PublishedTable& table, const Library& others, const JudgeOptions& options,
                TableScore& out) {
  Runs scored, rest;
  for (const PublishedRun& r : table.runs) scored.push_back(&r);
  for (const PublishedTable& t : others)
    for (const PublishedRun& r : t.runs) rest.push_back(&r);
  Judge judge(kStepSeconds, options);
  judge.read(samples_of(scored, kTime), samples_of(rest, kTime));
  std::vector<ScoredRow> fast;
  judge.run([&](size_t i, const OpenEstimate& e, const std::string& draw) {
    const PublishedRun& r = *scored[i];
    out.rows.push_back(row_of(r, r.step_s, e, draw));
    if (r.mfu >= kFastMfu) fast.push_back(out.rows.back());
  });
  out.time = score_rows(out.rows);
  if (!options.spec_only)
    judge.run(table.open, [&](const OpenRun& o, const OpenEstimate& e) { out.open.push_back(row_of(o, e)); });
  if (!fast.empty() && fast.size() < out.rows.size()) out.fast = score_rows(fast);
}

void judge_memory(const PublishedTable& table, const Library& others, const JudgeOptions& options,
                  TableScore& out) {
  Runs scored, rest;
  for (const PublishedRun& r : table.runs)
    if (r.memory_gb > 0) scored.push_back(&r);
  if (scored.empty()) return;
  for (const PublishedTable& t : others)
    for (const PublishedRun& r : t.runs)
      if (r.memory_gb > 0) rest.push_back(&r);
  Judge judge(kPeakBytes, options);
  judge.read(samples_of(scored, kMemory), samples_of(rest, kMemory));
  judge.run([&](size_t i, const OpenEstimate& e, const std::string& draw) {
    const PublishedRun& r = *scored[i];
    out.memory_rows.push_back(row_of(r, r.memory_gb * kBytesOfGiB, e, draw));
  });
  out.memory = score_rows(out.memory_rows);
  out.memory->regret.reset();  // no planner chooses a layout for the least memory
}

/// Runs that fitted and runs that did not, of campaigns with both.
void judge_outcomes(const PublishedTable& table, const Library& others, const JudgeOptions& options,
                    TableScore& out) {
  std::set<std::string> campaigns;  // with failures
  const auto tells = [&](const PublishedTable& t) {
    for (const PublishedRun& r : t.outcomes) campaigns.insert(r.campaign);
  };
  tells(table);
  for (const PublishedTable& t : others) tells(t);
  Runs scored, rest;
  const auto take = [&](const PublishedTable& t, bool readings, Runs& into) {
    for (const PublishedRun& r : t.outcomes) into.push_back(&r);
    for (const PublishedRun& r : t.runs)
      if (campaigns.contains(r.campaign) || (readings && r.memory_gb > 0)) into.push_back(&r);
  };
  take(table, false, scored);
  if (scored.empty()) return;
  for (const PublishedTable& t : others) take(t, true, rest);
  Judge judge(kPeakBytes, options);
  judge.prices_only = true;
  judge.read(samples_of(scored, kMemory), samples_of(rest, kMemory));
  Confusion c;
  judge.run([&](size_t i, const OpenEstimate& e, const std::string&) {
    const PublishedRun& r = *scored[i];
    const double bytes = e.of.value * std::exp(judge.sample(i).log_s);
    const bool failed = r.outcome == Outcome::out_of_memory, called = bytes > r.gpu->memory_bytes;
    ++(failed ? called ? c.failed_called : c.failed_missed : called ? c.fitted_missed : c.fitted_called);
    if (failed != called) c.misses.push_back(r.id);
  });
  out.outcomes = c;
}

}  // namespace

Library load_library(const std::string& folder) {
  Library library;
  for (const std::string& f : files_in(folder, ".csv")) {
    const CsvTable csv = read_csv(f);
    if (csv.has("metric_name")) library.push_back(published_from(csv));
  }
  return library;
}

TableScore judge(const PublishedTable& table, const Library& others, const JudgeOptions& options) {
  TableScore out;
  out.table = table.name;
  out.refused = table.refused;
  if (options.spec_only && !table.open.empty())
    out.refused["leaves inputs open, which --spec does not predict"] = static_cast<int>(table.open.size());
  judge_time(table, others, options, out);
  judge_memory(table, others, options, out);
  judge_outcomes(table, others, options, out);
  return out;
}

CollectiveScore judge(const CollectiveTable& table, const JudgeOptions& options) {
  constexpr double kLarge = 64.0 * 1048576;
  CollectiveScore out;
  out.table = table.name;
  out.refused = table.refused;
  std::vector<Sample> samples;
  for (const CollectiveRun& r : table.runs) samples.push_back(sample_of(r));
  Judge judge(kCollectiveSeconds, options);
  judge.read(std::move(samples), {});
  std::vector<ScoredRow> large;
  std::map<std::string, std::pair<std::vector<ScoredRow>, std::vector<ScoredRow>>> tools;
  judge.run([&](size_t i, const OpenEstimate& o, const std::string&) {
    const CollectiveRun& r = table.runs[i];
    const Estimated& e = o.of;  // no planner chooses among them
    const ScoredRow row{
        r.id, r.id,   r.seconds, r.seconds * e.value, r.seconds * e.lower, r.seconds * e.upper,
        "",   e.news, e.share};
    out.rows.push_back(row);
    tools[r.tool].first.push_back(row);
    if (r.bytes < kLarge) return;
    large.push_back(row);
    tools[r.tool].second.push_back(row);
  });
  out.time = score_rows(out.rows);
  out.large = score_rows(large);
  for (const auto& [tool, rows] : tools)
    out.by_tool[tool] = {score_rows(rows.first), score_rows(rows.second)};
  return out;
}

}  // namespace isobar::perf
