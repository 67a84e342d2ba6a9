// A run's step, planned once and replayed at any prices: predictions on cores, steps without a closed form,
// op times and timelines of reports.
//
//   const PlannedStep step(spec, machine_of(spec, machine), host);
//   step.replayed(machine.values()).step_s      // at least step.ceiling_s
#pragma once
#include <vector>

#include "perfmodel/machine/machine.h"
#include "perfmodel/step/simulate.h"

namespace isobar::perf {

struct PlannedStep {
  /// Plans one rank of each stage of rank `first`'s pipeline; experts are as uneven as runs of the machine's
  /// fit.
  PlannedStep(const RunSpec& spec, const Machine& machine, const HostShare& host,
              const plan::Workspace& workspace = {}, int first = 0);
  Replay replayed(const Counts& coefficients) const;

  RunSpec spec;
  Conditions where;
  std::vector<nets::StageProgram> stages;
  double cache_share;  // bytes of a rank's last-level cache
  double ceiling_s;    // least time by the machine's peaks
};

}  // namespace isobar::perf
