#include "perfmodel/ask/choose/question.h"

#include "model/base/error.h"
#include "perfmodel/score/own_runs.h"

namespace isobar {

SearchSpace space_of(const LayoutQuestion& q) {
  SearchSpace space = q.space == "1d" ? SearchSpace::one_d() : SearchSpace{};
  space.keep = q.keep;
  return space;
}

bool has_training(const LayoutQuestion& q) {
  return q.tokens > 0 || q.samples > 0;
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

}  // namespace isobar
