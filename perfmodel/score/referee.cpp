#include "perfmodel/score/referee.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>

#include "model/base/error.h"
#include "perfmodel/fit.h"
#include "perfmodel/score/splits.h"

namespace isobar {
namespace {

using Split = JudgeOptions::Split;
constexpr int kDraws = 5;  // of N random points
constexpr double kBusy = 2;
constexpr double kFastMfu = 15;
constexpr double kGiB = 1073741824.0;

/// Spec-sheet prices, and how much slower the machine family was in other campaigns (all machines where the
/// family was in none): a median over runs that the accelerator's rates decide, not the host's.
class SpecScale {
 public:
  SpecScale(const Pool& pool, const std::string& campaign) {
    for (const auto& [from, samples] : pool.by_campaign()) {
      if (from == campaign) continue;
      std::map<std::string, std::vector<double>> ratios;
      for (const Sample* s : samples)
        if (busy(s->counts, spec_prices()) > kBusy)
          ratios[s->run->gpu->chip()].push_back(s->log_s - std::log(step_seconds(s->counts, spec_prices())));
      for (auto& [family, r] : ratios) {  // every campaign has one voice
        const double m = quantile(r, 0.5);
        by_family_[family].push_back(m);
        all_.push_back(m);
      }
    }
  }
  Estimated predict(const Sample& s) const {
    const auto f = by_family_.find(s.run->gpu->chip());
    const std::vector<double>& voices = f != by_family_.end() ? f->second : all_;
    const double scale = voices.empty() ? 0 : quantile(voices, 0.5);
    const double seconds = std::exp(scale) * step_seconds(s.counts, spec_prices());
    const double half = kNormal80 * (f != by_family_.end() ? 0.22 : 0.3);
    return {seconds, seconds * std::exp(-half), seconds * std::exp(half)};
  }

 private:
  std::map<std::string, std::vector<double>> by_family_;
  std::vector<double> all_;
};

/// One quantity of one table: its rows split, fitted and predicted.
class Judge {
 public:
  using Value = std::string (*)(const PublishedRun&, Split);
  using Predict = std::function<void(size_t row, const Estimated& e, const std::string& draw)>;

  Judge(const Quantity& quantity, const JudgeOptions& options, Value value)
      : quantity_(quantity), options_(options), value_(value) {}

  /// Samples of the table come first, then those of the library that are none of the table's own.
  template <typename MakeSample>
  void read(const std::vector<const PublishedRun*>& scored, const std::vector<const PublishedRun*>& others,
            const MakeSample& make) {
    std::set<std::string> own;
    for (const PublishedRun* r : scored) {
      samples_.push_back(make(*r));
      values_.push_back(value_(*r, options_.split));
      own.insert(r->id);
      own.insert(value_(*r, Split::folds));
    }
    for (const PublishedRun* r : others)
      if (!own.contains(r->id) && !own.contains(value_(*r, Split::folds))) pool_.add(make(*r));
  }

  void run(const Predict& predicted) {
    std::vector<size_t> all(samples_.size());
    std::iota(all.begin(), all.end(), 0);
    if (options_.split == Split::points) {
      std::mt19937 random(options_.seed);
      for (int draw = 0; draw < kDraws; ++draw) {
        std::vector<size_t> order = all;
        std::shuffle(order.begin(), order.end(), random);
        const auto n = static_cast<std::ptrdiff_t>(std::min(static_cast<size_t>(options_.points), order.size()));
        predict({order.begin(), order.begin() + n}, {order.begin() + n, order.end()}, predicted,
                " draw " + std::to_string(draw));
      }
    } else if (options_.split == Split::none || options_.spec_only) {
      predict({}, all, predicted, "");
    } else {
      for (const std::vector<size_t>& test : parts_of(values_, most_parts(options_), options_.seed)) {
        const std::set<size_t> out(test.begin(), test.end());
        std::vector<size_t> train;
        std::copy_if(all.begin(), all.end(), std::back_inserter(train), [&](size_t i) { return !out.contains(i); });
        predict(train, test, predicted, "");
      }
    }
  }

  const Sample& sample(size_t i) const { return samples_[i]; }
  bool prices_only = false;  // predict with prices alone: outcomes, that a process has nothing to say about

 private:
  void predict(const std::vector<size_t>& train, const std::vector<size_t>& test, const Predict& predicted,
               const std::string& draw) {
    std::map<std::string, std::vector<size_t>> by_campaign;
    std::set<std::string> held_out;
    for (size_t i : test) {
      by_campaign[samples_[i].run->campaign].push_back(i);
      held_out.insert(values_[i]);
    }
    for (const auto& [campaign, members] : by_campaign) {
      if (options_.spec_only && &quantity_ == &kStepSeconds) {
        const SpecScale scale(pool_, campaign);
        for (size_t i : members) predicted(i, scale.predict(samples_[i]), draw);
        continue;
      }
      Samples rows;
      for (size_t i : train)
        if (samples_[i].run->campaign == campaign) rows.push_back(&samples_[i]);
      if (options_.split != Split::points)
        for (const Sample* s : pool_.of(campaign))
          if (!held_out.contains(value_(*s->run, options_.split))) rows.push_back(s);
      const Belief& belief = pool_.belief_without(quantity_, campaign);
      if (prices_only) {
        const Eigen::VectorXd prices = fitted_prices(quantity_, rows, belief);
        for (size_t i : members) {
          const double value = std::exp(quantity_.log_value(samples_[i], prices));
          predicted(i, {value, value, value}, draw);
        }
        continue;
      }
      const CampaignFit fit(quantity_, rows, belief);
      for (size_t i : members) predicted(i, fit.predict(samples_[i]), draw);
    }
  }

  const Quantity& quantity_;
  const JudgeOptions& options_;
  Value value_;
  std::vector<Sample> samples_;
  std::vector<std::string> values_;
  Pool pool_;
};

using Runs = std::vector<const PublishedRun*>;

void judge_time(const PublishedTable& table, const Library& others, const JudgeOptions& options, TableScore& out) {
  Runs scored, rest;
  for (const PublishedRun& r : table.runs) scored.push_back(&r);
  for (const PublishedTable& t : others)
    for (const PublishedRun& r : t.runs) rest.push_back(&r);
  Judge judge(kStepSeconds, options, held_out_value);
  judge.read(scored, rest, sample_of);
  std::vector<ScoredRow> fast;
  judge.run([&](size_t i, const Estimated& e, const std::string& draw) {
    const PublishedRun& r = *scored[i];
    out.rows.push_back({r.id, r.choice_group() + draw, r.step_s, e.value, e.lower, e.upper});
    if (r.mfu >= kFastMfu) fast.push_back(out.rows.back());
  });
  out.time = score_rows(out.rows);
  if (!fast.empty() && fast.size() < out.rows.size()) out.fast = score_rows(fast);
}

void judge_memory(const PublishedTable& table, const Library& others, const JudgeOptions& options, TableScore& out) {
  Runs scored, rest;
  for (const PublishedRun& r : table.runs)
    if (r.memory_gb > 0) scored.push_back(&r);
  if (scored.empty()) return;
  for (const PublishedTable& t : others)
    for (const PublishedRun& r : t.runs)
      if (r.memory_gb > 0) rest.push_back(&r);
  Judge judge(kPeakBytes, options, memory_value);
  judge.read(scored, rest, memory_sample_of);
  judge.run([&](size_t i, const Estimated& e, const std::string& draw) {
    const PublishedRun& r = *scored[i];
    out.memory_rows.push_back({r.id, r.choice_group() + draw, r.memory_gb * kGiB, e.value, e.lower, e.upper});
  });
  out.memory = score_rows(out.memory_rows);
  out.memory->regret.reset();  // nobody chooses a layout for the least memory
}

/// Runs that fitted and runs that did not, of campaigns that tell of both.
void judge_outcomes(const PublishedTable& table, const Library& others, const JudgeOptions& options,
                    TableScore& out) {
  std::set<std::string> campaigns;  // that tell of failures
  const auto tells = [&](const PublishedTable& t) {
    for (const PublishedRun& r : t.outcomes) campaigns.insert(r.campaign);
  };
  tells(table);
  for (const PublishedTable& t : others) tells(t);
  Runs scored, rest;
  const auto take = [&](const PublishedTable& t, Runs& into) {
    for (const PublishedRun& r : t.outcomes) into.push_back(&r);
    for (const PublishedRun& r : t.runs)
      if (campaigns.contains(r.campaign)) into.push_back(&r);
  };
  take(table, scored);
  if (scored.empty()) return;
  for (const PublishedTable& t : others) take(t, rest);
  Judge judge(kPeakBytes, options, memory_value);
  judge.prices_only = true;
  judge.read(scored, rest, memory_sample_of);
  Confusion c;
  judge.run([&](size_t i, const Estimated& e, const std::string&) {
    const PublishedRun& r = *scored[i];
    const bool failed = r.outcome == Outcome::out_of_memory, called = e.value > r.gpu->memory_bytes;
    ++(failed ? called ? c.failed_called : c.failed_missed : called ? c.fitted_missed : c.fitted_called);
    if (failed != called) c.misses.push_back(r.id);
  });
  out.outcomes = c;
}

}  // namespace

Library load_library(const std::string& folder, bool experts) {
  std::vector<std::filesystem::path> files;
  std::error_code gone;
  for (const auto& e : std::filesystem::directory_iterator(folder, gone))
    if (e.path().extension() == ".csv") files.push_back(e.path());
  if (gone || files.empty())
    throw ConfigError(folder, "", "holds no tables of published runs", "name the folder with --published");
  std::sort(files.begin(), files.end());
  Library library;
  for (const auto& f : files) {
    const CsvTable csv = read_csv(f.string());
    if (csv.has("metric_name")) library.push_back(published_from(csv, experts));
  }
  return library;
}

TableScore judge(const PublishedTable& table, const Library& others, const JudgeOptions& options) {
  TableScore out;
  out.table = table.name;
  out.refused = table.refused;
  judge_time(table, others, options, out);
  judge_memory(table, others, options, out);
  judge_outcomes(table, others, options, out);
  return out;
}

}  // namespace isobar
