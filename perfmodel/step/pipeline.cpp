#include "perfmodel/step/pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/nets/build.h"
#include "model/plan/layout.h"
#include "model/plan/schedule.h"
#include "perfmodel/step/cost.h"

namespace isobar {
namespace {

void add(Counts& to, const Counts& from, double factor) {
  for (size_t i = 0; i < kCoefs; ++i) to[i] += factor * from[i];
}

bool reads(const Plan& plan) {
  return std::any_of(plan.ops.begin(), plan.ops.end(), [](const Op& op) { return op.kind == OpKind::fetch; });
}

// Idle time of a stage in a roll-out, relative to another stage's compute in a step. A backward pass counts
// as two forward ones.
double rollout_bubble(const RunSpec& s) {
  const int64_t p = s.layout.pp, m = s.micro_batches(), steps = s.train.rollout, learnt = s.learnt_steps();
  const RollOutIdle idle = rollout_idle(s.policy.schedule, p, m, steps, learnt);
  return (idle.forward + 2 * idle.backward) / static_cast<double>((p - 1) * m * (steps + 2 * learnt));
}

// Exposed transfers of a step. Fill and drain pass every boundary of virtual stages once. 1F1B has just as
// many micro-batches in flight as stages, so every p of them wait for a round trip.
double exposed_transfers(const RunSpec& s) {
  const auto p = static_cast<double>(s.layout.pp), v = static_cast<double>(s.layout.vpp);
  const auto m = static_cast<double>(s.micro_batches());
  if (s.run.serial) return 0;  // received in order: part of every micro-batch
  // Every step of a roll-out waits for the whole round of micro-batches.
  if (s.train.rollout > 1)
    return p * std::ceil(m / p) * static_cast<double>(s.train.rollout + s.learnt_steps());
  return 2 * (p * v - 1) * (s.policy.schedule == PipelineSchedule::one_f_one_b ? std::max(1.0, m / p) : 1);
}

// The terms of a stage's slowest rank, on which all wait: a cut graph's parts are unequal.
StepTerms slowest_of_cut(const RunSpec& spec, const StageProgram& stage, int64_t stages,
                         const Conditions& where, double cache_share, const Counts& k) {
  StepTerms t = count_terms(spec, stage.plan, stage.program, where, cache_share);
  if (spec.layout.cp == 1 || !spec.net.has_edges()) return t;
  for (const int rank : group_of(spec.layout, "cp", stage.plan.rank)) {
    if (rank == stage.plan.rank) continue;
    const Plan plan = build_plan(spec, rank, {});
    StepTerms other = count_terms(spec, plan, link_step(spec, plan, stages), where, cache_share);
    if (step_seconds(other, k) > step_seconds(t, k)) t = std::move(other);
  }
  return t;
}

}  // namespace

std::vector<StageProgram> stages_of(const RunSpec& spec, const Workspace& workspace, int first) {
  std::vector<StageProgram> out;
  const std::vector<int> ranks =
      spec.layout.pp > 1 ? group_of(spec.layout, "pp", first) : std::vector<int>{first};
  for (int rank : ranks) {
    StageProgram stage{build_plan(spec, rank, workspace), {}};
    stage.program = link_step(spec, stage.plan, static_cast<int64_t>(ranks.size()));
    out.push_back(std::move(stage));
  }
  return out;
}

StepTerms count_pipeline(const RunSpec& spec, const std::vector<StageProgram>& stages,
                         const Conditions& where, double cache_share, const Counts& k) {
  std::vector<StepTerms> terms;
  for (const StageProgram& s : stages) {
    terms.push_back(slowest_of_cut(spec, s, static_cast<int64_t>(stages.size()), where, cache_share, k));
    if (!reads(s.plan)) terms.back().read = {};
  }
  if (terms.size() == 1) return terms[0];
  const auto slowest = static_cast<size_t>(std::max_element(terms.begin(), terms.end(),
                                                            [&](const StepTerms& a, const StepTerms& b) {
                                                              return step_seconds(a, k) < step_seconds(b, k);
                                                            }) -
                                           terms.begin());
  StepTerms out = terms[slowest];
  double share = 1 / static_cast<double>(spec.micro_batches() * spec.layout.vpp);
  if (spec.train.rollout > 1) share = rollout_bubble(spec);
  for (size_t i = 0; i < terms.size(); ++i) {
    if (i == slowest) continue;
    add(out.bubble, terms[i].micro, share);
    if (out.workers == 0) add(out.bubble, terms[i].read, share);
  }
  // Loader threads of the first stage delay the others too.
  if (out.workers > 0) out.read = terms[0].read;
  for (const Op& op : stages[0].plan.ops)
    if (op.kind == OpKind::send) {
      add(out.bubble, count_op(op, stages[0].plan, cache_share, where), exposed_transfers(spec));
      break;
    }
  return out;
}

}  // namespace isobar
