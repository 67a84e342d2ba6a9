#include "perfmodel/fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "perfmodel/cost.h"
#include "perfmodel/least_squares.h"
#include "perfmodel/ops_fit.h"

namespace isobar {
namespace {

constexpr double kExpectedSpread = 0.05;  // log residual before any run was seen ...
constexpr double kExpectedRuns = 4;       // ... which weighs as much as this many runs
constexpr double kRoundsOfSpread = 4;

// How far the reported median may lie from the run's true one.
double median_error(const MeasuredRun& r) {
  if (r.steps < 1 || r.step_p10 <= 0 || r.step_p90 <= r.step_p10) return 0;
  const double sigma = std::log(r.step_p90 / r.step_p10) / (2 * kNormal80);
  return 1.2533 * sigma / std::sqrt(static_cast<double>(r.steps));
}

// Residual spread of all runs and of each kind: robust (80 % quantile), kinds shrunk towards the whole.
std::map<std::string, double> spread_of(const Solution& s, const std::vector<std::string>& kinds) {
  const auto n = static_cast<double>(kinds.size());
  std::vector<double> scaled;  // residuals as large as they would be without the fit's own freedom
  for (Eigen::Index i = 0; i < s.residuals.size(); ++i)
    scaled.push_back(std::abs(s.residuals[i]) / std::sqrt(1 - s.leverage[i]));
  const double robust = quantile(scaled, 0.8) / kNormal80;
  const double all = std::sqrt((kExpectedRuns * kExpectedSpread * kExpectedSpread + n * robust * robust) /
                               (kExpectedRuns + n));
  std::map<std::string, double> out{{"all", all}};
  constexpr double kShrink = 8;  // runs
  std::map<std::string, std::pair<double, double>> sums;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const double x = std::min(scaled[i], 2.5 * all);
    sums[kinds[i]].first += 1;
    sums[kinds[i]].second += x * x;
  }
  for (const auto& [kind, sum] : sums)
    out[kind] = std::sqrt((kShrink * all * all + sum.second) / (kShrink + sum.first));
  return out;
}

// 80 % quantile of standardised leave-one-out errors, drawn towards the normal's while runs are few.
double interval_quantile(const Solution& s, const std::vector<std::string>& kinds,
                         const std::map<std::string, double>& spread) {
  std::vector<double> scores;
  for (Eigen::Index i = 0; i < s.residuals.size(); ++i) {
    const double own = spread.at(kinds[i]);
    scores.push_back(std::abs(s.leave_one_out[i]) / std::sqrt(own * own + s.leave_one_out_variance[i]));
  }
  const auto n = static_cast<double>(scores.size());
  const double conformal = quantile(scores, std::min(1.0, 0.8 * (n + 1) / n));
  constexpr double kShrink = 10;  // runs
  return (n * conformal + kShrink * kNormal80) / (n + kShrink);
}

double process_memory(const std::vector<MeasuredRun>& runs, const Machine& m) {
  std::vector<double> constants;
  for (const MeasuredRun& r : runs) {
    if (r.peak_rss_bytes <= 0) continue;
    const Plan plan = build_plan(r.spec, 0, {});
    const auto rest = static_cast<double>(r.peak_rss_bytes - plan.memory.total());
    if (rest > 0) constants.push_back(rest);
  }
  return constants.empty() ? m[Coef::process].value : quantile(constants, 0.5);
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double cache_share(const Machine& machine, int64_t ranks_on_host) {
  return static_cast<double>(machine.identity.cache_bytes) / static_cast<double>(ranks_on_host);
}

StepTerms terms_of(const RunSpec& spec, const Machine& machine, int64_t threads, int64_t ranks_on_host) {
  const Plan plan = build_plan(spec, 0, {});
  const Conditions where{.ranks = spec.layout.world(),
                         .ranks_on_host = ranks_on_host,
                         .threads = threads,
                         .cores = machine.identity.cores};
  return count_terms(spec, plan, link(plan, plan.train, spec.run.serial), where,
                     cache_share(machine, ranks_on_host));
}

std::string kind_of(const StepTerms& t) {
  return std::string(t.where.ranks > 1 ? "ranks" : "one_rank") + (t.workers > 0 ? "_workers" : "");
}

std::map<std::string, double> quantities_of(const RunSpec& s, const StepTerms& t) {
  return {{"embed_dim", static_cast<double>(s.net.embed_dim)},
          {"tokens", static_cast<double>(s.net.tokens())},
          {"depth", static_cast<double>(s.net.depth)},
          {"micro_batch", static_cast<double>(s.micro_batch())},
          {"micro_batches", static_cast<double>(s.micro_batches())},
          {"ranks", static_cast<double>(t.where.ranks)},
          {"threads", static_cast<double>(t.where.threads)},
          {"loader_threads", static_cast<double>(t.workers + 1)}};
}

Machine fit(const std::vector<MeasuredRun>& runs, const Machine& machine, const FitOptions& options) {
  if (runs.empty())
    throw ConfigError("isobar fit", "runs", "there is no successful run to fit to",
                      "run isobar sweep first, or look at why its trials failed");
  std::vector<StepTerms> terms;
  std::vector<std::string> kinds;
  Machine out = machine;
  out.fit = FitRecord{};
  for (const MeasuredRun& r : runs) {
    if (!(r.step_s > 0) || !std::isfinite(r.step_s))
      throw ConfigError(r.id, "step_s", "is not a positive number of seconds", "leave the run out");
    terms.push_back(terms_of(r.spec, machine, r.threads, r.ranks_on_host));
    kinds.push_back(kind_of(terms.back()));
    out.fit->runs.push_back(r.id);
    for (const auto& [name, value] : quantities_of(r.spec, terms.back())) {
      auto [range, fresh] = out.fit->range.try_emplace(name, std::vector<double>{value, value});
      range->second = {std::min(range->second[0], value), std::max(range->second[1], value)};
    }
  }
  const Prior prior = prior_of(machine, options.drift);
  const std::vector<Observation> ops = op_observations(runs, terms, machine);
  Counts start = machine.values();
  if (!ops.empty()) start = solve(ops, prior, start).coefficients;

  // Whole steps; how far they scatter decides what they weigh against the prior, and is learnt on the way.
  std::map<std::string, double> spread{{"all", kExpectedSpread}};
  for (const std::string& k : kinds) spread[k] = kExpectedSpread;
  Solution steps;  // the rows of whole steps
  Solution s;
  for (int round = 0; round < kRoundsOfSpread; ++round) {
    std::vector<Observation> all;
    for (size_t i = 0; i < runs.size(); ++i) {
      const StepTerms& t = terms[i];
      all.push_back({[&t](const Counts& k) { return step_seconds(t, k); }, runs[i].step_s,
                     std::hypot(spread.at(kinds[i]), median_error(runs[i]))});
    }
    const auto n = static_cast<Eigen::Index>(all.size());
    all.insert(all.end(), ops.begin(), ops.end());
    s = solve(all, prior, start);
    start = s.coefficients;
    steps = s;
    for (Eigen::VectorXd* v :
         {&steps.residuals, &steps.leverage, &steps.leave_one_out, &steps.leave_one_out_variance})
      v->conservativeResize(n);
    spread = spread_of(steps, kinds);
  }
  out.fit->spread = spread;
  out.fit->quantile = interval_quantile(steps, kinds, spread);
  out.fit->covariance.resize(kCoefs * kCoefs);
  for (size_t i = 0; i < kCoefs; ++i) {
    for (size_t j = 0; j < kCoefs; ++j) out.fit->covariance[i * kCoefs + j] = s.covariance(i, j);
    if (static_cast<Coef>(i) == Coef::process) continue;
    // A run set a coefficient when its step would have felt it.
    std::vector<std::string> provenance;
    for (size_t r = 0; r < runs.size(); ++r)
      if (std::abs(s.jacobian(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(i))) > 0.01)
        provenance.push_back(runs[r].id);
    const auto& before = machine.coefficients[i].provenance;
    if (provenance.empty()) continue;
    provenance.insert(provenance.end(), before.begin(), before.end());
    out.coefficients[i] = Coefficient::make(
        s.coefficients[i], std::sqrt(s.covariance(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(i))),
        provenance);
  }
  const double memory = process_memory(runs, machine);
  if (memory != machine[Coef::process].value)
    out[Coef::process] = Coefficient::make(memory, 0.1, out.fit->runs);
  return out;
}

}  // namespace isobar
