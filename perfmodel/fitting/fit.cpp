#include "perfmodel/fitting/fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "model/nets/layout/device_memory.h"
#include "perfmodel/fitting/layout_fit.h"
#include "perfmodel/fitting/least_squares.h"
#include "perfmodel/fitting/ops_fit.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/step/engine_prices.h"
#include "perfmodel/step/expert_imbalance.h"

namespace isobar::perf {
namespace {

constexpr double kExpectedSpread = 0.05;  // prior log residual, …
constexpr double kExpectedRuns = 1;       // … which weighs as much as this number of runs
constexpr double kExpectedEffect = 0.03;  // prior log deviation of a group, …
constexpr double kExpectedGroups = 2;     // … which weighs as much as this number of groups
constexpr int kRounds = 6;

// A run faster than the peak of its products allows disproves it. A measured peak may have been disturbed and
// is raised a little; anything more is a wrong file or measurement and is refused.
void admit_to_peak(const MeasuredRun& r, double least, const std::string& name, Machine& m,
                   std::vector<std::string>& notes) {
  constexpr double kRaise = 1.5;
  if (r.step_s >= least) return;
  const double factor = 1.02 * least / r.step_s;
  Peak& peak = m.peaks.at(name);
  const bool measured = !peak.provenance.empty() && peak.provenance.front() != "spec";
  const bool cores = device_of(m) == Device::cores;
  if (!measured || !cores || factor > kRaise)
    throw ConfigError(m.file.empty() ? "machine" : m.file, "peaks." + name + ".value",
                      "is too low: run " + r.id + " took " + std::to_string(r.step_s) +
                          " s where it allows no less than " + std::to_string(least) + " s",
                      cores ? "correct the peak, or run isobar calibrate while the machine is idle"
                            : "take the file of the accelerators that it ran on, or leave it out");
  peak.value *= factor;
  peak.provenance.push_back(r.id);
  notes.push_back("peaks." + name + " was raised: run " + r.id + " was faster than it allowed");
}

// Cores emulate tf32 in f32.
std::string peak_used(const RunSpec& spec, const Machine& m) {
  const std::string peak = peak_of(spec);
  return peak == "tf32" && device_of(m) == Device::cores ? "f32" : peak;
}

// The runs that determine scatter: all but contended ones, if there are any.
std::vector<size_t> undisturbed(const std::vector<MeasuredRun>& runs) {
  std::vector<size_t> out, all;
  for (size_t i = 0; i < runs.size(); ++i) {
    all.push_back(i);
    if (!runs[i].contended) out.push_back(i);
  }
  return out.empty() ? all : out;
}

// Residual spread of these runs, in total and by kind: robust (80 % quantile), kinds shrunk towards the
// total.
std::map<std::string, double> spread_of(const Solution& s, const std::vector<std::string>& kinds,
                                        const std::vector<size_t>& of) {
  const auto n = static_cast<double>(of.size());
  std::vector<double> scaled;  // residuals, corrected for the fit's degrees of freedom
  for (const size_t i : of) {
    const auto at = static_cast<Eigen::Index>(i);
    scaled.push_back(std::abs(s.residuals[at]) / std::sqrt(1 - s.leverage[at]));
  }
  const double robust = quantile(scaled, 0.8) / kNormal80;
  const double all = std::sqrt((kExpectedRuns * kExpectedSpread * kExpectedSpread + n * robust * robust) /
                               (kExpectedRuns + n));
  std::map<std::string, double> out{{"all", all}};
  constexpr double kShrink = 8;  // runs
  std::map<std::string, std::pair<double, double>> sums;
  for (const std::string& kind : kinds) sums[kind];
  for (size_t i = 0; i < of.size(); ++i) {
    const double x = std::min(scaled[i], 2.5 * all);
    sums[kinds[of[i]]].first += 1;
    sums[kinds[of[i]]].second += x * x;
  }
  for (const auto& [kind, sum] : sums)
    out[kind] = std::sqrt((kShrink * all * all + sum.second) / (kShrink + sum.first));
  return out;
}

// Standard deviation of the groups of each family (expectation maximisation over their means and remaining
// variance).
std::map<std::string, double> effect_sigma_of(const Solution& s,
                                              const std::vector<std::pair<std::string, double>>& effects) {
  std::map<std::string, std::pair<double, double>> sums;
  for (size_t e = 0; e < effects.size(); ++e) {
    auto& [count, squares] = sums[family_of(effects[e].first)];
    const auto d = static_cast<Eigen::Index>(kCoefs + e);
    count += 1;
    squares += s.effects[e] * s.effects[e] + s.covariance(d, d);
  }
  std::map<std::string, double> out;
  for (const auto& [family, sum] : sums)
    out[family] = std::sqrt((kExpectedGroups * kExpectedEffect * kExpectedEffect + sum.second) /
                            (kExpectedGroups + sum.first));
  return out;
}

std::vector<int> indices_of(const std::vector<std::string>& names,
                            std::vector<std::pair<std::string, double>>& effects) {
  std::vector<int> out;
  for (const std::string& name : names) {
    auto at = std::find_if(effects.begin(), effects.end(), [&](const auto& e) { return e.first == name; });
    if (at == effects.end()) at = effects.insert(at, {name, 0.0});
    out.push_back(static_cast<int>(at - effects.begin()));
  }
  return out;
}

// 80 % quantile of standardised leave-one-out errors, shrunk towards the normal's for few runs.
double interval_quantile(const Solution& s, const std::vector<std::string>& kinds,
                         const std::map<std::string, double>& spread, const std::vector<size_t>& of) {
  std::vector<double> scores;
  for (const size_t i : of) {
    const auto at = static_cast<Eigen::Index>(i);
    const double own = spread.at(kinds[i]);
    scores.push_back(std::abs(s.leave_one_out[at]) / std::sqrt(own * own + s.leave_one_out_variance[at]));
  }
  const auto n = static_cast<double>(scores.size());
  const double conformal = quantile(scores, std::min(1.0, 0.8 * (n + 1) / n));
  constexpr double kShrink = 10;  // runs
  return (n * conformal + kShrink * kNormal80) / (n + kShrink);
}

void note_contended(const std::vector<MeasuredRun>& runs, const std::vector<std::string>& kinds,
                    FitRecord& record) {
  std::string names;
  size_t n = 0;
  double weight = 0;  // weight of such a run, relative to one with fully informative steps
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].contended) continue;
    ++n;
    const double spread = record.spread.at(kinds[i]), error = runs[i].step_error;
    weight += spread * spread / (spread * spread + error * error);
    names += (names.empty() ? "" : ", ") + runs[i].id;
  }
  if (n == 0) return;
  record.notes.push_back(
      printed(
          "%zu of %zu runs were contended (other work disturbed them) and weigh %.2g of an ordinary one: ", n,
          runs.size(), weight / static_cast<double>(n)) +
      names);
}

// Memory of the measured runs beyond `planned` bytes; on accelerators as it was measured
double process_memory(const std::vector<MeasuredRun>& runs, const std::vector<double>& planned,
                      const Machine& m) {
  std::vector<double> constants;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].process_bytes > 0) constants.push_back(static_cast<double>(runs[i].process_bytes));
    if (runs[i].peak_rss_bytes <= 0 || m.accelerator) continue;
    const double rest = static_cast<double>(runs[i].peak_rss_bytes) - planned[i];
    if (rest > 0) constants.push_back(rest);
  }
  return constants.empty() ? m[Coef::process].value : quantile(constants, 0.5);
}

}  // namespace

double measurement_error(const MeasuredRun& r) {
  return std::hypot(r.step_error, r.run_to_run);
}

std::string kind_of(const RunSpec& s, const Conditions& where) {
  return std::string(where.ranks > 1 ? "ranks" : "one_rank") + (s.data.workers > 0 ? "_workers" : "");
}

std::vector<std::string> effects_of(const RunSpec& s, const Conditions& where) {
  const auto text = [](int64_t v) { return std::to_string(v); };
  std::vector<std::string> out{"shape: " + s.net.kind() + " dim " + text(s.net.width()) + " heads " +
                                   text(s.net.heads()) + " tokens " + text(s.net.tokens()) + " micro-batch " +
                                   text(s.micro_batch()) + " amp " + name_of(s.policy.amp),
                               "host: ranks " + text(where.ranks_on_host) + " threads " +
                                   text(where.threads) + " workers " + text(s.data.workers)};
  // Plain data parallelism is the reference.
  const LayoutSpec& l = s.layout;
  if (l.tp * l.cp * l.pp > 1)
    out.push_back("layout: tp " + text(l.tp) + (l.tp > 1 && s.policy.sequence_parallel ? " sequence" : "") +
                  " cp " + text(l.cp) + " pp " + text(l.pp) +
                  (l.pp > 1 ? " " + name_of(s.policy.schedule) : ""));
  return out;
}

std::string family_of(const std::string& effect) {
  return effect.substr(0, effect.find(':'));
}

std::map<std::string, double> quantities_of(const RunSpec& s, const Conditions& where) {
  std::map<std::string, double> all = op_quantities_of(s, where.threads);
  all.insert({{"micro_batches", static_cast<double>(s.micro_batches())},
              {"tp", static_cast<double>(s.layout.tp)},
              {"cp", static_cast<double>(s.layout.cp)},
              {"pp", static_cast<double>(s.layout.pp)},
              {"ep", static_cast<double>(s.layout.ep)},
              {"ranks", static_cast<double>(where.ranks)},
              {"loader_threads", static_cast<double>(s.data.workers + 1)}});
  all.merge(expert_quantities_of(s));
  return all;
}

std::map<std::string, double> op_quantities_of(const RunSpec& s, int64_t threads) {
  std::map<std::string, double> all{{"embed_dim", static_cast<double>(s.net.width())},
                                    {"tokens", static_cast<double>(s.net.tokens())},
                                    {"depth", static_cast<double>(s.net.blocks())},
                                    {"micro_batch", static_cast<double>(s.micro_batch())},
                                    {"threads", static_cast<double>(threads)}};
  std::erase_if(all, [](const auto& q) { return q.second <= 0; });  // unknown of a recorded net
  return all;
}

Machine fit(const std::vector<MeasuredRun>& runs, const Machine& given, Statistic statistic) {
  if (runs.empty())
    throw ConfigError("isobar fit", "runs", "there is no successful run to fit to",
                      "run isobar sweep first, or look at why its trials failed");
  const Machine machine = machine_of(runs.front().spec, given);
  Machine out = machine;
  out.fit = FitRecord{};
  FitRecord& record = *out.fit;
  record.statistic = statistic;
  LayoutModels models;
  std::vector<StepView> views;
  std::vector<double> planned;  // bytes of the fullest rank, without the process
  std::vector<std::string> kinds;
  std::vector<std::vector<int>> groups;  // of each run: indices into record.effects
  const bool several_campaigns = std::any_of(
      runs.begin(), runs.end(), [&](const MeasuredRun& r) { return r.campaign != runs[0].campaign; });
  for (const MeasuredRun& r : runs) {
    if (!(r.step_s > 0) || !std::isfinite(r.step_s))
      throw ConfigError(r.id, "step_s", "is not a positive number of seconds", "leave the run out");
    const Device device = device_of(r.spec, machine);
    const RunSpec spec = r.expert_imbalance > 0 ? with_imbalance(r.spec, r.expert_imbalance) : r.spec;
    views.push_back(models.view(spec, machine, r.host));
    if (device == Device::accelerator) {
      planned.push_back(models.of(spec, machine, r.host).cost(layout_of(spec)).memory -
                        machine[Coef::process].value);
      if (several_campaigns) views.back().effects.push_back(campaign_effect(r.campaign));
    } else {
      planned.push_back(r.peak_rss_bytes > 0 ? static_cast<double>(nets::fullest(r.spec, {}).total()) : 0);
    }
    admit_to_peak(r, views.back().ceiling_s, peak_used(r.spec, machine), out, record.notes);
    kinds.push_back(views.back().kind);
    groups.push_back(indices_of(views.back().effects, record.effects));
    record.runs.push_back(r.id);
    for (const auto& [name, value] : views.back().quantities) {
      auto [range, fresh] = record.range.try_emplace(name, std::vector<double>{value, value});
      range->second = {std::min(range->second[0], value), std::max(range->second[1], value)};
    }
  }
  std::vector<std::vector<size_t>> felt(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) felt[i] = felt_by(views[i].seconds, machine.values());
  constexpr double kDrift = 0.2;  // log sigma between a benchmark and the same work inside a step
  const Prior prior = prior_of(out, kDrift);
  std::vector<std::string> sources = record.runs;  // the run of each observation
  std::vector<Observation> parts;                  // observations of parts of steps
  if (device_of(machine) == Device::cores) parts = op_observations(runs, machine, sources);
  const std::vector<Observation> checkpoints = checkpoint_observations(runs, machine.storage, sources);
  parts.insert(parts.end(), checkpoints.begin(), checkpoints.end());
  Counts start = machine.values();
  if (!parts.empty()) start = solve(parts, prior, start).coefficients;

  // Whole steps. Their weight against the prior depends on the scatter of runs and groups, which is learnt
  // iteratively.
  const std::vector<size_t> reference_runs = undisturbed(runs);
  record.spread["all"] = kExpectedSpread;
  for (const std::string& k : kinds) record.spread[k] = kExpectedSpread;
  for (const auto& [name, value] : record.effects) record.effect_sigma[family_of(name)] = kExpectedEffect;
  Solution s, steps;  // of all observations; of whole steps
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Observation> all;
    for (size_t i = 0; i < runs.size(); ++i)
      all.push_back({views[i].seconds, runs[i].step_s,
                     std::hypot(record.spread.at(kinds[i]), runs[i].step_error), groups[i], felt[i]});
    all.insert(all.end(), parts.begin(), parts.end());
    std::vector<double> effect_sigma;
    for (const auto& [name, value] : record.effects)
      effect_sigma.push_back(record.effect_sigma.at(family_of(name)));
    s = solve(all, prior, start, effect_sigma);
    start = s.coefficients;
    steps = s;
    for (Eigen::VectorXd* v :
         {&steps.residuals, &steps.leverage, &steps.leave_one_out, &steps.leave_one_out_variance})
      v->conservativeResize(static_cast<Eigen::Index>(runs.size()));
    if (round + 1 == kRounds) break;
    record.spread = spread_of(steps, kinds, reference_runs);
    if (!checkpoints.empty()) {
      const double spread = record.spread["checkpoint"] = checkpoint_spread(s, checkpoints.size());
      for (size_t i = parts.size() - checkpoints.size(); i < parts.size(); ++i) parts[i].sigma = spread;
    }
    record.effect_sigma = effect_sigma_of(s, record.effects);
  }
  record.quantile = interval_quantile(steps, kinds, record.spread, reference_runs);
  note_contended(runs, kinds, record);
  for (size_t e = 0; e < record.effects.size(); ++e) record.effects[e].second = s.effects[e];
  record.covariance.assign(s.covariance.data(), s.covariance.data() + s.covariance.size());
  for (size_t i = 0; i < kCoefs; ++i) {
    if (static_cast<Coef>(i) == Coef::process) continue;
    // A run is the source of a coefficient if its step, checkpoints or op times are sensitive to it.
    // Otherwise the coefficient moved with its family only, and keeps its provenance.
    std::set<std::string> felt;
    const auto d = static_cast<Eigen::Index>(i);
    for (Eigen::Index r = 0; r < s.jacobian.rows(); ++r)
      if (std::abs(s.jacobian(r, d)) > 0.01) felt.insert(sources.at(r));
    std::vector<std::string> provenance(felt.begin(), felt.end());
    const auto& before = machine.coefficients[i].provenance;
    provenance.insert(provenance.end(), before.begin(), before.end());
    out.coefficients[i] =
        Coefficient::make(s.coefficients[i], std::sqrt(s.covariance(d, d)), std::move(provenance));
  }
  for (size_t i = 0; i < kCoefs; ++i)
    if (out.floor_of(i) > 0 && s.coefficients[i] < 1.03 * out.floor_of(i))
      record.notes.push_back(std::string(info_of(i).name) + " is held at the peak: peaks." + info_of(i).peak +
                             " may be too low");
  const double memory = process_memory(runs, planned, machine);
  if (memory != machine[Coef::process].value)
    out[Coef::process] = Coefficient::make(memory, 0.1, record.runs);
  return out;
}

}  // namespace isobar::perf
