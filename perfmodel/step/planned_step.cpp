#include "perfmodel/step/planned_step.h"

#include "perfmodel/machine/device.h"
#include "perfmodel/step/expert_imbalance.h"
#include "perfmodel/step/utilization.h"

namespace isobar::perf {

PlannedStep::PlannedStep(const RunSpec& run, const Machine& m, const HostShare& host,
                         const plan::Workspace& workspace, int first)
    : spec(as_priced(run, m)),
      where(conditions_of(spec, m, host)),
      stages(nets::stages_of(spec, workspace, first)),
      cache_share(cache_of_rank(m, where.ranks_on_host)),
      ceiling_s(ceiling_of(stages, m, where)) {}

Replay PlannedStep::replayed(const Counts& coefficients) const {
  return simulate(spec, stages, coefficients, where, cache_share);
}

}  // namespace isobar::perf
