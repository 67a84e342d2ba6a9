// The linked programs of a training step: one for each length of the roll-out.
//
//   const StepPrograms programs(spec, plan);
//   programs.keep(runner);
//   runner(programs.of(spec.rollout_at(step)), step);
#pragma once
#include <vector>

#include "model/backend/runner.h"
#include "model/base/spec/spec.h"
#include "model/nets/build.h"
#include "model/plan/link.h"

namespace isobar {

struct StepPrograms {
  StepPrograms(const RunSpec& spec, const Plan& plan) : full(link_step(spec, plan)) {
    for (const std::vector<Invocation>& calls : plan.shorter)
      shorter.push_back(link(plan, calls, spec.run.serial));
  }
  /// Announces the programs to the runner, which keeps their addresses.
  void keep(Runner& runner) const {
    runner.keep(full, true);
    for (const Program& program : shorter) runner.keep(program, true);
  }
  const Program& of(int64_t rollout) const {
    const auto length = static_cast<size_t>(rollout);
    return length <= shorter.size() ? shorter[length - 1] : full;
  }

  const Program full;
  std::vector<Program> shorter;  // of shorter roll-outs, by steps - 1
};

}  // namespace isobar
