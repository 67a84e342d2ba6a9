#include "perfmodel/step/long_step.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "model/nets/build.h"
#include "model/nets/folded_plan.h"
#include "model/plan/layout.h"
#include "model/plan/work.h"
#include "perfmodel/step/cost.h"

namespace isobar {
namespace {

constexpr int64_t kMostSkipped = 64;  // rounds of micro-batches, until growth is constant
// Relative tolerance of a round's time: passes over all parameters leave the caches gradually.
constexpr double kSame = 1e-3;

class Counter {
 public:
  Counter(const Workspace& workspace, const Conditions& where, double cache_share, const Counts& k,
          const LongStep& longer)
      : workspace_(workspace), where_(where), cache_share_(cache_share), k_(k), longer_(longer) {}

  CountedStep count(const RunSpec& spec) const {
    if (!is_deep(spec, longer_.parts)) return of_parts(spec);
    const auto [round, rounds] = rounds_of(spec);
    if (rounds <= 0) return of_parts(spec);
    const int64_t parts = equal_parts(spec.net), each = round * spec.layout.pp * spec.layout.vpp;
    return of_rounds(rounds, longer_.parts / round,
                     [&](int64_t less) { return of_parts(with_equal_parts(spec, parts - less * each)); });
  }

 private:
  struct Rounds {
    int64_t parts = 1, count = 0;  // parts of a chunk in a round; rounds left out
  };

  // The round in which both the first and the last stage repeat.
  Rounds rounds_of(const RunSpec& spec) const {
    const std::vector<int> stages = group_of(spec.layout, "pp", 0);
    const FoldedPlan first = fold_plan(spec, stages.front(), workspace_, longer_.parts);
    if (first.rounds == 0) return {};
    if (stages.size() == 1) return {first.round, first.rounds};
    const FoldedPlan last = fold_plan(spec, stages.back(), workspace_, longer_.parts);
    if (last.rounds == 0) return {};
    const int64_t round = std::lcm(first.round, last.round);
    return {round, std::min(first.rounds * first.round, last.rounds * last.round) / round};
  }

  // With all of the net's parts; long runs of micro-batches are extrapolated.
  CountedStep of_parts(const RunSpec& spec) const {
    const int64_t few = few_micro_batches(spec), all = spec.micro_batches(), pp = spec.layout.pp;
    if (all <= 2 * few) return whole(spec);
    const Plan plan = build_plan(spec, 0, workspace_);
    if (step_bytes(plan) <= longer_.bytes) return whole(spec);
    return of_rounds((all - few) / pp, kMostSkipped,
                     [&](int64_t less) { return whole(with_micro_batches(spec, all - less * pp)); });
  }

  CountedStep whole(const RunSpec& spec) const {
    const std::vector<StageProgram> stages = stages_of(spec, workspace_);
    CountedStep s{.terms = count_pipeline(spec, stages, where_, cache_share_, k_)};
    for (const StageProgram& stage : stages)  // each stands for the other ranks of its stage
      s.flops += totals(stage.plan, spec.micro_batch()).step.flops *
                 static_cast<double>(spec.layout.world()) / static_cast<double>(stages.size());
    s.parameters = static_cast<double>(stages[0].plan.parameter_count());
    return s;
  }

  // `with_less`: the step without that number of its rounds.
  CountedStep of_rounds(int64_t rounds, int64_t most_skipped,
                        const std::function<CountedStep(int64_t)>& with_less) const {
    for (int64_t skipped = 0; skipped <= most_skipped && skipped + 2 < rounds; skipped = 4 * skipped + 3) {
      const int64_t less = rounds - skipped;
      CountedStep few = with_less(less), more = with_less(less - 1);
      const double begin = step_seconds(few.terms, k_), next = step_seconds(more.terms, k_);
      const double then = step_seconds(with_less(less - 2).terms, k_);
      if (std::abs(then - next - (next - begin)) > kSame * std::abs(next - begin)) continue;
      const auto n = static_cast<double>(less);
      few.flops += n * (more.flops - few.flops);
      few.parameters += n * (more.parameters - few.parameters);
      few.terms = grown(std::move(few.terms), std::move(more.terms), n);
      return few;
    }
    return with_less(0);
  }

  const Workspace& workspace_;
  const Conditions& where_;
  double cache_share_;
  const Counts& k_;
  LongStep longer_;
};

}  // namespace

CountedStep count_step(const RunSpec& spec, const Workspace& workspace, const Conditions& where,
                       double cache_share, const Counts& k, const LongStep& longer) {
  return Counter(workspace, where, cache_share, k, longer).count(spec);
}

}  // namespace isobar
