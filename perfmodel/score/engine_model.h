// Predicts a run of ours on other engines, with coefficients from their campaigns.
//
//   const EngineModel nemo = EngineModel::shipped(&engine_named("nemo"));
//   EngineAnswer a = nemo.predict(run_of(spec, machine, chip, engine.habits));
//   a.step.value, a.step.lower, a.step.upper; a.memory.value      // 80 % intervals
//   nemo.learn(runs_of(mine, machine, chip));                     // from a user's own runs (own_runs.h)
//
// Fitted on construction; a user's runs are a campaign of their own, of this engine.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/machine/engine.h"
#include "perfmodel/score/prices/prices.h"
#include "perfmodel/score/published/published_run.h"
#include "perfmodel/score/scoreboard/metrics.h"

namespace isobar::perf {

struct EngineAnswer {
  Estimated step;    // seconds
  Estimated memory;  // bytes of the fullest rank
};

class CampaignFit;
struct PriceBelief;
struct Sample;

class EngineModel {
 public:
  /// nullptr: an unknown engine. `tuned`: exact; else by its file, with uncertainty.
  EngineModel(const std::vector<PublishedTable>& tables, const ForeignEngine* engine,
              std::optional<double> tuned = {});
  ~EngineModel();
  /// From the tables of configs/published.
  static EngineModel shipped(const ForeignEngine* engine, std::optional<double> tuned = {});
  const Tuned& tuned() const { return tuned_; }
  /// Adds runs of the predicted campaign.
  void learn(std::vector<PublishedRun> own);
  const std::vector<PublishedRun>& own_runs() const { return runs_; }
  EngineAnswer predict(const PublishedRun& run) const;
  /// The chance of each to be the fastest, and the expected throughput lost by choosing the first: shared
  /// errors cancel.
  struct Fastest {
    std::vector<double> chances;
    double loss = 0;
  };
  Fastest fastest(const std::vector<PublishedRun>& runs) const;
  /// The step of each learnt run, predicted from the others except its repetitions.
  std::vector<ScoredRow> left_out() const;
  /// Number of rows fitted to: of the engine's own campaigns, and of all others.
  size_t own_rows() const { return own_; }
  size_t other_rows() const { return others_; }

 private:
  void condition();
  size_t own_ = 0, others_ = 0;
  Tuned tuned_;
  std::unique_ptr<PriceBelief> step_, memory_;
  std::vector<PublishedRun> runs_;
  std::vector<std::unique_ptr<Sample>> steps_, peaks_;
  std::unique_ptr<CampaignFit> step_fit_, memory_fit_;
};

}  // namespace isobar::perf
