#include "perfmodel/referee/holdout.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "model/base/rng.h"
#include "model/base/step_stats.h"
#include "model/base/text/printed.h"
#include "model/nets/build.h"
#include "model/nets/layout/device_memory.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/machine/device.h"

namespace isobar::perf {
namespace {

constexpr uint64_t kSplitStream = uint64_t{0x73706c69} << 32;  // "spli": a separate random stream

// Runs of one specification, and their values of the varied keys.
struct Unit {
  std::vector<size_t> runs;
  std::vector<std::string> values;  // one per varied key
};

bool splits(const std::string& key, Together together) {
  if (together == Together::specification) return true;
  return key.starts_with("/layout/") || (key.starts_with("/policy/") && key != "/policy/amp");
}

std::vector<Unit> units_of(const std::vector<MeasuredRun>& runs, Together together) {
  std::map<std::string, std::vector<size_t>> same;
  std::vector<nlohmann::json> flat;
  std::map<std::string, std::vector<std::string>> values;  // values that a key takes
  for (size_t i = 0; i < runs.size(); ++i) {
    nlohmann::json j = to_json(runs[i].spec).flatten();
    for (const char* key : {"/run/out", "/train/seed", "/train/steps"}) j.erase(key);
    const nlohmann::json every = j;
    for (const auto& [key, value] : every.items())
      if (!splits(key, together)) j.erase(key);
    for (const auto& [key, value] : j.items()) {
      auto& known = values[key];
      if (std::find(known.begin(), known.end(), value.dump()) == known.end()) known.push_back(value.dump());
    }
    same[j.dump()].push_back(i);
    flat.push_back(std::move(j));
  }
  std::vector<Unit> out;
  for (auto& [text, members] : same) {
    Unit u;
    u.runs = std::move(members);
    for (const auto& [key, known] : values)
      if (known.size() > 1) u.values.push_back(flat[u.runs[0]].value(key, nlohmann::json()).dump());
    out.push_back(std::move(u));
  }
  return out;
}

// Runs with different batches are compared by samples a second.
double regret_of(const std::vector<MeasuredRun>& runs, const std::vector<HoldoutRow>& rows) {
  double best = 0, first = 0, chosen = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto samples = static_cast<double>(runs[i].spec.train.global_batch);
    best = std::max(best, samples / rows[i].measured);
    if (samples / rows[i].predicted <= first) continue;
    first = samples / rows[i].predicted;
    chosen = samples / rows[i].measured;
  }
  return 1 - chosen / best;
}

// As regret_of(), by specification: each counts with the median of its uncontended repetitions, and is left
// out without any.
void judge_settings(const std::vector<MeasuredRun>& runs, Holdout& h) {
  std::vector<double> errors, repeats;
  for (const Unit& u : units_of(runs, Together::specification)) {
    std::vector<double> ratios;
    for (const size_t i : u.runs) {
      if (runs[i].contended) continue;
      ratios.push_back(h.rows[i].predicted / h.rows[i].measured);
      std::vector<double> others;
      for (const size_t k : u.runs)
        if (k != i && !runs[k].contended) others.push_back(h.rows[k].measured);
      if (!others.empty()) repeats.push_back(std::abs(h.rows[i].measured / quantile(others, 0.5) - 1));
    }
    if (!ratios.empty()) errors.push_back(std::abs(quantile(ratios, 0.5) - 1));
  }
  h.settings = errors.size();
  if (!errors.empty()) h.settings_error = quantile(errors, 0.5);
  if (!repeats.empty()) h.repeat_error = quantile(repeats, 0.5);
}

}  // namespace

HeldOut split_runs(const std::vector<MeasuredRun>& runs, double fraction, uint64_t seed, Together together) {
  const std::vector<Unit> units = units_of(runs, together);
  const auto wanted = static_cast<size_t>(std::llround(fraction * static_cast<double>(units.size())));
  const size_t columns = units.empty() ? 0 : units[0].values.size();
  std::vector<std::map<std::string, double>> total(columns), taken(columns);
  for (const Unit& u : units)
    for (size_t c = 0; c < columns; ++c) total[c][u.values[c]] += 1;
  std::vector<int64_t> order = permutation(static_cast<int64_t>(units.size()), seed, kSplitStream);
  std::vector<bool> train(runs.size(), false);
  for (size_t k = 0; k < wanted; ++k) {
    // The next unit is the one whose values are least represented so far; ties by random order.
    double least = 0;
    auto best = order.end();
    for (auto it = order.begin(); it != order.end(); ++it) {
      double sum = 0;
      for (size_t c = 0; c < columns; ++c) {
        const std::string& v = units[*it].values[c];
        sum += taken[c][v] / total[c][v];
      }
      if (best == order.end() || sum < least - 1e-12) {
        least = sum;
        best = it;
      }
    }
    for (size_t c = 0; c < columns; ++c) taken[c][units[*best].values[c]] += 1;
    for (size_t i : units[*best].runs) train[i] = true;
    order.erase(best);
  }
  HeldOut out;
  for (size_t i = 0; i < runs.size(); ++i) (train[i] ? out.train : out.test).push_back(i);
  return out;
}

std::vector<MeasuredRun> pick(const std::vector<MeasuredRun>& runs, const std::vector<size_t>& which) {
  std::vector<MeasuredRun> out;
  out.reserve(which.size());
  for (size_t i : which) out.push_back(runs.at(i));
  return out;
}

namespace {

/// Predictions of the rows are priced; measurements and summary are added.
Holdout judged(const std::vector<MeasuredRun>& runs, const std::vector<std::string>& fitted,
               const std::function<HoldoutRow(const MeasuredRun&)>& price) {
  Holdout h;
  std::vector<double> errors, measured, predicted;
  for (const MeasuredRun& r : runs) {
    const double width = std::exp(kNormal80 * measurement_error(r));
    HoldoutRow row = price(r);
    row.id = r.id;
    row.measured = r.step_s;
    row.measured_lower = r.step_s / width;
    row.measured_upper = r.step_s * width;
    row.contended = r.contended;
    row.in_fit = std::find(fitted.begin(), fitted.end(), r.id) != fitted.end();
    h.rows.push_back(row);
    errors.push_back(std::abs(row.error()));
    measured.push_back(r.step_s);
    predicted.push_back(row.predicted);
    h.bias += row.error();
    h.coverage += row.inside() ? 1 : 0;
  }
  if (h.rows.empty()) return h;
  h.regret = regret_of(runs, h.rows);
  const auto n = static_cast<double>(h.rows.size());
  h.bias /= n;
  h.coverage /= n;
  h.median_error = quantile(errors, 0.5);
  h.p90 = quantile(errors, 0.9);
  h.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / n;
  h.rank_correlation = spearman(measured, predicted);
  judge_settings(runs, h);
  return h;
}

}  // namespace

Holdout hold_out(const std::vector<MeasuredRun>& runs, const Machine& machine) {
  return judged(
      runs, machine.fit ? machine.fit->runs : std::vector<std::string>{}, [&](const MeasuredRun& r) {
        const Prediction p = predict(r.spec, machine, {.host = r.host, .campaign = r.campaign});
        return HoldoutRow{.predicted = p.step_s, .lower = p.lower, .upper = p.upper, .terms = p.terms};
      });
}

Holdout hold_out(const std::vector<MeasuredRun>& runs, const SettingsFit& fit) {
  return judged(runs, fit.ids(), [&](const MeasuredRun& r) {
    const StepRange p = fit(r.spec);
    return HoldoutRow{.predicted = p.seconds, .lower = p.lower, .upper = p.upper};
  });
}

namespace {

/// `judge`: calls its argument with held-out runs, and with all, by a fit to the others.
RepeatedHoldout repeated(const std::vector<HeldOut>& splits,
                         const std::function<std::pair<Holdout, Holdout>(const HeldOut&)>& judge) {
  RepeatedHoldout out;
  for (const HeldOut& split : splits) {
    const auto [h, all] = judge(split);
    out.regrets.push_back(all.regret);
    out.median_errors.push_back(h.median_error);
    if (h.settings > 0 && h.settings < h.rows.size()) out.settings_errors.push_back(h.settings_error);
    for (const HoldoutRow& r : h.rows) out.inside += r.inside() ? 1 : 0;
    out.runs += h.rows.size();
  }
  for (std::vector<double>* v : {&out.median_errors, &out.settings_errors, &out.regrets})
    std::sort(v->begin(), v->end());
  return out;
}

}  // namespace

RepeatedHoldout repeat_hold_out(const std::vector<MeasuredRun>& runs, const Machine& before,
                                Statistic statistic, const std::vector<HeldOut>& splits) {
  return repeated(splits, [&](const HeldOut& split) {
    const Machine m = fit(pick(runs, split.train), before, statistic);
    return std::pair(hold_out(pick(runs, split.test), m), hold_out(runs, m));
  });
}

RepeatedHoldout repeat_hold_out(const std::vector<MeasuredRun>& runs, const std::vector<HeldOut>& splits) {
  return repeated(splits, [&](const HeldOut& split) {
    const SettingsFit m(pick(runs, split.train));
    return std::pair(hold_out(pick(runs, split.test), m), hold_out(runs, m));
  });
}

nlohmann::json holdout_json(const Machine& machine, const Holdout& fitted, const Holdout& held_out) {
  nlohmann::json out = holdout_json(machine.fit ? machine.fit->statistic : kStatistic, fitted, held_out);
  out["machine"] = machine.name.empty() ? "fitted" : machine.name;
  return out;
}

nlohmann::json holdout_json(Statistic statistic, const Holdout& fitted, const Holdout& held_out) {
  const auto summary = [](const Holdout& h) -> nlohmann::json {
    if (h.rows.empty()) return nullptr;
    return {{"runs", h.rows.size()},
            {"median_error", h.median_error},
            {"mape", h.mape},
            {"p90_error", h.p90},
            {"bias", h.bias},
            {"coverage", h.coverage},
            {"rank_correlation", h.rank_correlation},
            {"regret", h.regret},
            {"settings", h.settings},
            {"settings_median_error", h.settings_error},
            {"repeat_median_error",
             h.settings < h.rows.size() ? nlohmann::json(h.repeat_error) : nlohmann::json()}};
  };
  nlohmann::json rows = nlohmann::json::array();
  for (const Holdout* h : {&held_out, &fitted})
    for (const HoldoutRow& r : h->rows) {
      nlohmann::json terms = nlohmann::json::object();
      for (const Term& t : r.terms) terms[t.name] = t.seconds;
      rows.push_back({{"id", r.id},
                      {"in_fit", r.in_fit},
                      {"contended", r.contended},
                      {"measured_s", r.measured},
                      {"measured_lo_s", r.measured_lower},
                      {"measured_hi_s", r.measured_upper},
                      {"predicted_s", r.predicted},
                      {"lo_s", r.lower},
                      {"hi_s", r.upper},
                      {"terms", terms}});
    }
  return {{"machine", "by settings"},
          {"statistic", name_of(statistic)},
          {"held_out", summary(held_out)},
          {"fitted", summary(fitted)},
          {"runs", rows}};
}

MemoryFit memory_of(const std::vector<MeasuredRun>& runs, const Machine& machine,
                    const std::function<plan::Workspace(int threads)>& workspace_of) {
  MemoryFit out;
  std::vector<double> errors;
  for (const MeasuredRun& r : runs) {
    if (device_of(r.spec, machine) != Device::cores) continue;
    const plan::Workspace workspace = workspace_of(static_cast<int>(r.host.threads));
    if (r.arena_bytes > 0) {  // which is rank 0's
      ++out.runs;
      out.same += nets::build_plan(r.spec, 0, workspace).memory.arena == r.arena_bytes ? 1 : 0;
    }
    if (r.peak_rss_bytes <= 0) continue;
    const double said =
        static_cast<double>(nets::fullest(r.spec, workspace).total()) + machine[Coef::process].value;
    errors.push_back(said / static_cast<double>(r.peak_rss_bytes) - 1);
    out.bias += errors.back();
  }
  out.peaks = errors.size();
  if (errors.empty()) return out;
  out.bias /= static_cast<double>(errors.size());
  for (double& e : errors) e = std::abs(e);
  out.median_error = quantile(errors, 0.5), out.p90 = quantile(errors, 0.9);
  return out;
}

std::string text_of(const MemoryFit& m) {
  std::string text;
  if (m.runs > 0) text = printed("Memory: the planned arena is exact for %zu of %zu runs", m.same, m.runs);
  if (m.peaks > 0)
    text += printed(
        "%s peak memory of %zu runs' processes: median error %.1f %%, 90th percentile %.1f %%, bias %+.1f %%",
        text.empty() ? "Memory:" : ";", m.peaks, 100 * m.median_error, 100 * m.p90, 100 * m.bias);
  return text.empty() ? "" : text + "\n";
}

}  // namespace isobar::perf
