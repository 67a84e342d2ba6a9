#include "perfmodel/score/engine_model.h"

#include "perfmodel/machine/shipped.h"
#include "perfmodel/score/referee.h"
#include "perfmodel/score/splits.h"

namespace isobar {
namespace {

PriceBelief learnt(const Quantity& quantity, const Library& tables, const ForeignEngine* engine,
                   const Tuned& tuned, size_t* own, size_t* others) {
  Pool pool;
  for (const PublishedTable& t : tables)
    for (const PublishedRun& r : t.runs) {
      if (&quantity == &kPeakBytes && r.memory_gb <= 0) continue;
      pool.add(&quantity == &kPeakBytes ? memory_sample_of(r) : sample_of(r));
      ++*(engine && engine_of(r.campaign) == engine ? own : others);
    }
  std::vector<Voice> voices;
  for (const auto& [name, samples] : pool.by_campaign()) voices.push_back(voice_of(quantity, samples));
  return believe(quantity, voices, engine, tuned);
}

}  // namespace

EngineModel::EngineModel(const std::vector<PublishedTable>& tables, const ForeignEngine* engine,
                         std::optional<double> tuned) {
  tuned_ = tuned ? Tuned{*tuned, 0} : engine ? engine->tuned : Tuned{};
  step_ = learnt(kStepSeconds, tables, engine, tuned_, &own_, &others_);
  size_t own = 0, others = 0;
  memory_ = learnt(kPeakBytes, tables, engine, tuned_, &own, &others);
}

EngineModel EngineModel::shipped(const ForeignEngine* engine, std::optional<double> tuned) {
  return {load_library(isobar::shipped("configs/published")), engine, tuned};
}

EngineAnswer EngineModel::predict(const PublishedRun& run) const {
  const CampaignFit step(kStepSeconds, {}, step_), memory(kPeakBytes, {}, memory_);
  return {step.predict(sample_of(run)), memory.predict(memory_sample_of(run))};
}

}  // namespace isobar
