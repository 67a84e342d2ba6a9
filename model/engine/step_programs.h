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

namespace isobar::engine {

struct StepPrograms {
  StepPrograms(const RunSpec& spec, const plan::Plan& plan) : full(nets::link_step(spec, plan)) {
    for (const std::vector<plan::Invocation>& calls : plan.shorter)
      shorter.push_back(plan::link(plan, calls, spec.run.serial));
  }
  /// Announces the programs to the runner, which keeps their addresses.
  void keep(Runner& runner) const {
    runner.keep(full, true);
    for (const plan::Program& program : shorter) runner.keep(program, true);
  }
  const plan::Program& of(int64_t rollout) const {
    const auto length = static_cast<size_t>(rollout);
    return length <= shorter.size() ? shorter[length - 1] : full;
  }

  const plan::Program full;
  std::vector<plan::Program> shorter;  // of shorter roll-outs, by steps - 1
};

}  // namespace isobar::engine
