// A run of ours as other engines would make it: their coefficients from the campaigns that ran them.
//
//   const EngineModel nemo = EngineModel::shipped(&engine_named("nemo"));
//   EngineAnswer a = nemo.predict(run_of(spec, machine, chip, engine.habits));
//   a.step.value, a.step.lower, a.step.upper; a.memory.value      // 80 % intervals
//
// Fitted when it is made: a user's run counts as a campaign of its own, of this engine.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/score/campaign_fit.h"

namespace isobar {

struct EngineAnswer {
  Estimated step;    // seconds
  Estimated memory;  // bytes of the fullest rank
};

class EngineModel {
 public:
  /// nullptr: an engine that nobody knows. `tuned`: as much, and no doubt about it; else as its file says.
  EngineModel(const std::vector<PublishedTable>& tables, const ForeignEngine* engine,
              std::optional<double> tuned = {});
  /// From the tables of configs/published.
  static EngineModel shipped(const ForeignEngine* engine, std::optional<double> tuned = {});
  const Tuned& tuned() const { return tuned_; }
  EngineAnswer predict(const PublishedRun& run) const;
  /// Rows that were fitted to: of the engine's own campaigns, and of all others.
  size_t own_rows() const { return own_; }
  size_t other_rows() const { return others_; }

 private:
  size_t own_ = 0, others_ = 0;
  Tuned tuned_;
  PriceBelief step_, memory_;
};

}  // namespace isobar
