// How far a training has come, and what is due after a step.
//
//   while (!progress.over(spec)) { … ++progress.step; … }
//   if (save_due(spec, progress)) …
#pragma once
#include <cstdint>

#include "model/base/spec/spec.h"
#include "model/inference/early_stop.h"
#include "model/inference/schedule_lr.h"

namespace isobar::engine {

constexpr int64_t kWarmupSteps = 2;  // first steps of a run, excluded from step statistics and op times

struct RunProgress {
  int64_t first = 0;  // steps done before this run: not 0 if it resumes
  int64_t step = 0;   // steps done
  int64_t steps_per_epoch = 1;
  inference::Plateau plateau;
  inference::EarlyStop early;  // `reason`: why the run ends before train.steps
  int64_t best_step = -1;      // step of the validation with the lowest loss, of those in this run

  bool over(const RunSpec& spec) const { return step >= spec.train.steps || !early.reason.empty(); }
  /// Statistics of steps begin anew: after warm-up, and where the roll-out becomes longer, because steps of
  /// different lengths must not be averaged.
  bool restarts_statistics(const RunSpec& spec) const {
    const bool longer = step > 0 && spec.rollout_at(step) != spec.rollout_at(step - 1);
    return step == first || step == first + kWarmupSteps || longer;
  }
};

/// True after every `every` steps (0: never), or after each epoch.
inline bool due(int64_t every, const RunProgress& p) {
  const int64_t steps = every == TrainSpec::kEpoch ? p.steps_per_epoch : every;
  return steps > 0 && p.step % steps == 0;
}

/// A validation is due by train.valid_every. (The last step has one in any case.)
inline bool validation_due(const RunSpec& spec, const RunProgress& p) {
  return due(spec.train.valid_every, p);
}

/// A checkpoint is due; after this step's validation, whose loss may be the best.
inline bool save_due(const RunSpec& spec, const RunProgress& p) {
  const int64_t every = spec.train.checkpoint_every;
  const bool best = spec.train.checkpoint_best && p.best_step == p.step;
  return best || (every != 0 && (p.over(spec) || due(every, p)));
}

}  // namespace isobar::engine
