#include "perfmodel/score/referee.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include "model/base/error.h"
#include "perfmodel/fit.h"
#include "perfmodel/score/regression.h"

namespace isobar {
namespace {

using Split = JudgeOptions::Split;
constexpr size_t kMostFolds = 12;  // of held-out values; more values share folds
constexpr int kDraws = 5;          // of N random points
constexpr double kBusy = 2;
constexpr double kFastMfu = 15;

std::string value_of(const PublishedRun& r, Split split) {
  switch (split) {
    case Split::layout: return r.layout();
    case Split::gpus: return std::to_string(r.gpus);
    case Split::model: return r.model;
    default: return r.specification();  // repetitions stay together
  }
}

/// Held-out parts: indices of the table's rows.
std::vector<std::vector<size_t>> parts_of(const PublishedTable& t, const JudgeOptions& o) {
  std::map<std::string, std::vector<size_t>> by_value;
  for (size_t i = 0; i < t.runs.size(); ++i) by_value[value_of(t.runs[i], o.split)].push_back(i);
  std::vector<const std::vector<size_t>*> values;
  for (const auto& [value, rows] : by_value) values.push_back(&rows);
  std::shuffle(values.begin(), values.end(), std::mt19937(o.seed));
  const size_t most = o.split == Split::folds ? static_cast<size_t>(o.folds) : kMostFolds;
  std::vector<std::vector<size_t>> parts(std::min(most, values.size()));
  for (size_t v = 0; v < values.size(); ++v) {
    std::vector<size_t>& part = parts[v % parts.size()];
    part.insert(part.end(), values[v]->begin(), values[v]->end());
  }
  return parts;
}

/// What may be learnt from: samples by campaign, owned here.
struct Pool {
  std::vector<std::unique_ptr<Sample>> owned;
  std::map<std::string, Samples> by_campaign;
  void add(const PublishedRun& r) {
    owned.push_back(std::make_unique<Sample>(sample_of(r)));
    by_campaign[r.campaign].push_back(owned.back().get());
  }
};

/// All runs of the library that are none of the table's own.
Pool pool_of(const Library& library, const PublishedTable& scored) {
  std::set<std::string> ids, specifications;
  for (const PublishedRun& r : scored.runs) {
    ids.insert(r.id);
    specifications.insert(r.specification());
  }
  Pool p;
  for (const PublishedTable& t : library)
    for (const PublishedRun& r : t.runs)
      if (!ids.contains(r.id) && !specifications.contains(r.specification())) p.add(r);
  return p;
}

/// Spec-sheet prices, and how much slower the machine family was in other campaigns (all machines where the
/// family was in none): a median over runs that the accelerator's rates decide, not the host's.
class SpecScale {
 public:
  SpecScale(const Pool& pool, const std::string& campaign) {
    for (const auto& [from, samples] : pool.by_campaign) {
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

struct Judge {
  const PublishedTable& table;
  const JudgeOptions& options;
  std::vector<Sample> samples;  // of the table, in its order
  Pool pool;
  std::map<std::string, Belief> beliefs;  // by campaign: of the others
  TableScore out;

  const Belief& belief_for(const std::string& campaign) {
    auto found = beliefs.find(campaign);
    if (found == beliefs.end()) {
      std::vector<Samples> campaigns;
      for (const auto& [from, s] : pool.by_campaign)
        if (from != campaign) campaigns.push_back(s);
      found = beliefs.emplace(campaign, believe(kStepSeconds, campaigns)).first;
    }
    return found->second;
  }

  /// Predicts the rows `test` from the table's rows `train` and the pool, campaign by campaign.
  void predict(const std::vector<size_t>& train, const std::vector<size_t>& test) {
    std::map<std::string, std::vector<size_t>> by_campaign;
    for (size_t i : test) by_campaign[table.runs[i].campaign].push_back(i);
    std::set<std::string> held_out;  // values of what is left out
    for (size_t i : test) held_out.insert(value_of(table.runs[i], options.split));
    for (const auto& [campaign, members] : by_campaign) {
      if (options.spec_only) {
        const SpecScale scale(pool, campaign);
        for (size_t i : members) add(i, scale.predict(samples[i]));
        continue;
      }
      Samples rows;
      for (size_t i : train)
        if (table.runs[i].campaign == campaign) rows.push_back(&samples[i]);
      const auto shipped = pool.by_campaign.find(campaign);
      if (shipped != pool.by_campaign.end() && !options.no_shipped_campaign && options.split != Split::points)
        for (const Sample* s : shipped->second)
          if (!held_out.contains(value_of(*s->run, options.split))) rows.push_back(s);
      const CampaignFit fit(kStepSeconds, rows, belief_for(campaign));
      for (size_t i : members) add(i, fit.predict(samples[i]));
    }
  }

  void add(size_t i, const Estimated& e) {
    const PublishedRun& r = table.runs[i];
    out.rows.push_back({r.id, r.choice_group() + draw, r.step_s, e.value, e.lower, e.upper});
    if (r.mfu >= kFastMfu) fast.push_back(out.rows.back());
  }
  std::vector<ScoredRow> fast;
  std::string draw;  // groups are of one draw
};

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
  Judge j{table, options, {}, pool_of(others, table), {}, {}, {}, {}};
  j.out.table = table.name;
  j.out.refused = table.refused;
  for (const PublishedRun& r : table.runs) j.samples.push_back(sample_of(r));
  std::vector<size_t> all(table.runs.size());
  std::iota(all.begin(), all.end(), 0);
  if (options.split == Split::points) {
    std::mt19937 random(options.seed);
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<size_t> order = all;
      std::shuffle(order.begin(), order.end(), random);
      const size_t n = std::min(static_cast<size_t>(options.points), order.size());
      j.draw = " draw " + std::to_string(draw);
      j.predict({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n)},
                {order.begin() + static_cast<std::ptrdiff_t>(n), order.end()});
    }
  } else if (options.split == Split::none || options.spec_only) {
    j.predict({}, all);
  } else {
    for (const std::vector<size_t>& test : parts_of(table, options)) {
      const std::set<size_t> out(test.begin(), test.end());
      std::vector<size_t> train;
      std::copy_if(all.begin(), all.end(), std::back_inserter(train), [&](size_t i) { return !out.contains(i); });
      j.predict(train, test);
    }
  }
  j.out.time = score_rows(j.out.rows);
  if (!j.fast.empty() && j.fast.size() < j.out.rows.size()) j.out.fast = score_rows(j.fast);
  return j.out;
}

}  // namespace isobar
