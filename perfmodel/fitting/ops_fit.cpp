#include "perfmodel/fitting/ops_fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "model/nets/build.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/step/checkpoint.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/step/op_terms.h"

namespace isobar::perf {
namespace {

struct KindTotal {
  Counts counts{};
  double seconds = 0;
  bool complete = true;  // every op of the kind was measured
};

std::map<plan::OpKind, KindTotal> totals_by_kind(const MeasuredRun& run, const Machine& machine,
                                                 const Conditions& where) {
  const plan::Plan plan = nets::build_plan(run.spec, 0, {});
  const double cache = cache_share(machine, run.host.ranks_on_host);
  std::map<std::string, double> each;  // seconds of one execution, by path
  for (const MeasuredOp& op : run.ops)
    if (op.count > 0) each[op.path] = op.seconds / static_cast<double>(op.count);
  std::map<plan::OpKind, KindTotal> out;
  double all = 0;  // seconds of a step, collectives included
  bool complete = true;
  for (const plan::Invocation& invocation : plan.train) {
    const plan::Routine& r = plan.routines[invocation.routine];
    for (int32_t o = r.first; o < r.first + r.count; ++o) {
      const plan::Op& op = plan.ops[o];
      const auto found = each.find(op.path);
      complete &= found != each.end();
      all += found != each.end() ? found->second : 0;
      if (plan::is_collective(op.kind)) continue;
      KindTotal& total = out[op.kind];
      if (found == each.end()) {
        total.complete = false;
        continue;
      }
      total.seconds += found->second;
      const Counts n = count_op(op, plan, cache, where);
      for (size_t i = 0; i < kCoefs; ++i) total.counts[i] += n[i];
    }
  }
  // Op times are means including disturbed steps; the fitted step time is a median or lower.
  if (const double scale = complete && all > 0 ? std::min(1.0, run.step_s / all) : 1; scale < 1)
    for (auto& [kind, total] : out) total.seconds *= scale;
  return out;
}

}  // namespace

std::vector<Observation> op_observations(const std::vector<MeasuredRun>& runs, const Machine& machine,
                                         std::vector<std::string>& sources) {
  // A kind's counts are always a little off, equally in all runs: `common` does not average out, so each run
  // weighs less the more there are.
  constexpr double kScatter = 0.08, kCommon = 0.08;  // log sigma
  // The time outside ops is a difference, with an error proportional to the whole step.
  constexpr double kOfTheStep = 0.005;
  std::vector<std::pair<std::string, Observation>> found;
  std::map<std::string, int> of_kind;
  for (const MeasuredRun& run : runs) {
    const Conditions where = conditions_of(run.spec, machine, run.host);
    const bool undisturbed =
        run.spec.data.workers == 0 && (where.ranks == 1 || run.spec.run.serial || !where.overlaps() ||
                                       (!run.spec.policy.overlap && run.spec.layout.pp == 1));
    if (run.ops.empty() || !undisturbed) continue;
    const Reading reading = reading_of(run.spec, where);
    for (auto& [kind, total] : totals_by_kind(run, machine, where)) {
      if (!total.complete || !(total.seconds > 0)) continue;
      if (kind == plan::OpKind::fetch)
        for (size_t c = 0; c < kCoefs; ++c) total.counts[c] += reading.counts[c];
      const std::string name = plan::name_of(kind) + std::string("/") + name_of(run.spec.policy.amp);
      ++of_kind[name];
      sources.push_back(run.id);
      found.emplace_back(name, Observation{[counts = total.counts, where](const Counts& k) {
                                             return seconds(counts, rates(k, where));
                                           },
                                           total.seconds, 0});
    }
    if (const double share = run.outside_share; where.ranks == 1 && share > kOfTheStep) {
      ++of_kind["step"];
      sources.push_back(run.id);
      found.emplace_back("step", Observation{[](const Counts& k) { return k[index_of(Coef::step)]; },
                                             share * run.step_s, kOfTheStep / share});
    }
  }
  std::vector<Observation> out;
  for (auto& [name, o] : found) {
    o.sigma = std::sqrt(o.sigma * o.sigma + kScatter * kScatter + of_kind[name] * kCommon * kCommon);
    out.push_back(std::move(o));
  }
  return out;
}

std::vector<Observation> checkpoint_observations(const std::vector<MeasuredRun>& runs, const Storage& storage,
                                                 std::vector<std::string>& sources) {
  std::vector<Observation> out;
  for (const MeasuredRun& run : runs) {
    if (!(run.checkpoint_s > 0)) continue;
    const auto parameters = static_cast<double>(nets::build_plan(run.spec, 0, {}).parameter_count());
    const CheckpointWork w = checkpoint_work(run.spec, parameters, run.host.ranks_on_host);
    out.push_back({.model = [w, storage](const Counts& k) { return checkpoint_seconds(w, k, storage); },
                   .measured = run.checkpoint_s,
                   .sigma = kCheckpointScatter,
                   .felt = {index_of(Coef::commit), index_of(Coef::checkpoint)}});
    sources.push_back(run.id);
  }
  return out;
}

double checkpoint_spread(const Solution& s, size_t count) {
  constexpr double kExpectedRuns = 4;  // runs whose weight the expected spread has
  double squares = kExpectedRuns * kCheckpointScatter * kCheckpointScatter;
  for (Eigen::Index i = s.residuals.size() - static_cast<Eigen::Index>(count); i < s.residuals.size(); ++i)
    squares += s.residuals[i] * s.residuals[i] / (1 - s.leverage[i]);
  return std::sqrt(squares / (kExpectedRuns + static_cast<double>(count)));
}

}  // namespace isobar::perf
