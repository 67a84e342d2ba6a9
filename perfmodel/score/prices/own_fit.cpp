#include "perfmodel/score/prices/own_fit.h"

#include "perfmodel/score/engine_model.h"

namespace isobar::perf {

OwnFit fit_own(const OwnRuns& own, const Machine& machine) {
  const ChipSpec chip = chip_of(machine);
  const ForeignEngine* engine = own.engine == "unknown" ? nullptr : &engine_named(own.engine);
  EngineModel model = EngineModel::shipped(engine, own.tuned);
  const std::vector<PublishedRun> runs = runs_of(own, machine, chip);
  OwnFit out;
  for (const PublishedRun& r : runs) {
    const Estimated e = model.predict(r).step;
    out.without.push_back({r.id, r.choice_group(), r.step_s, e.value, e.lower, e.upper, r.specification()});
  }
  model.learn(runs);
  out.left_out = model.left_out();
  return out;
}

}  // namespace isobar::perf
