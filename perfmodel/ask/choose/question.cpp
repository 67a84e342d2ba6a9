#include "perfmodel/ask/choose/question.h"

#include <algorithm>

#include "model/base/error.h"
#include "perfmodel/score/own_runs.h"

namespace isobar::perf {

void keep_to(const ForeignEngine& e, SearchSpace& space) {
  std::erase_if(space.zero, [&](int z) {
    return std::find(e.axes.zero.begin(), e.axes.zero.end(), z) == e.axes.zero.end();
  });
  const auto only_one = [&](bool has, LayoutAxis axis, const char* name) {
    if (has || space.keep.only(axis)) return;  // the engine's file refuses fixed axes itself (refuse_axes)
    space.keep.add({axis, 1, 1, false, e.name + " has no " + name, true});
  };
  only_one(e.axes.dp, LayoutAxis::dp, "dp");
  only_one(e.axes.tp, LayoutAxis::tp, "tp");
  only_one(e.axes.cp, LayoutAxis::cp, "cp");
  only_one(e.axes.pp, LayoutAxis::pp, "pp");
  only_one(e.axes.ep, LayoutAxis::ep, "ep");
  if (!e.axes.vpp) std::erase(space.schedules, PipelineSchedule::interleaved);
}

SearchSpace space_of(const LayoutQuestion& q) {
  SearchSpace space = q.space == "1d" ? SearchSpace::one_d() : SearchSpace{};
  space.keep = q.keep;
  if (q.engine) keep_to(*q.engine, space);
  return space;
}

bool has_training(const LayoutQuestion& q) {
  return q.tokens > 0 || q.samples > 0;
}

const ForeignEngine* EngineQuestion::of_plans() const {
  if (engine == "isobar") return nullptr;
  for (const ForeignEngine& e : shipped_engines())
    if (e.name == engine && e.kernels) return &e;
  return nullptr;
}

NoAnswer no_answer(const std::string& machine, int64_t gpus, const ConfigError& e) {
  return {machine, gpus, e.what(), dynamic_cast<const DoesNotFit*>(&e) != nullptr};
}

void take_fit(const Machine& machine, EngineQuestion& q) {
  const OwnRuns own = load_own_runs(q.fit, machine);
  if (q.foreign() && q.engine != own.engine)
    throw ConfigError(q.fit, "engine", "is " + own.engine + ", not " + q.engine, "leave --engine out");
  q.engine = own.engine;
  q.tuned = own.tuned;
}

}  // namespace isobar::perf
