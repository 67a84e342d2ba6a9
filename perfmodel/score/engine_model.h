// A run of ours as other engines would make it: their coefficients from the campaigns that ran them.
//
//   const EngineModel nemo = EngineModel::shipped(&engine_named("nemo"));
//   EngineAnswer a = nemo.predict(run_of(spec, machine, chip, engine.habits));
//   a.step.value, a.step.lower, a.step.upper; a.memory.value      // 80 % intervals
//   nemo.learn(runs_of(mine, machine, chip));                     // from a user's own runs (own_runs.h)
//
// Fitted when it is made: a user's run counts as a campaign of its own, of this engine.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/score/engine.h"
#include "perfmodel/score/estimated.h"
#include "perfmodel/score/metrics.h"
#include "perfmodel/score/published_run.h"

namespace isobar {

struct EngineAnswer {
  Estimated step;    // seconds
  Estimated memory;  // bytes of the fullest rank
};

class CampaignFit;
struct PriceBelief;
struct Sample;

class EngineModel {
 public:
  /// nullptr: an engine that nobody knows. `tuned`: as much, and no doubt about it; else as its file says.
  EngineModel(const std::vector<PublishedTable>& tables, const ForeignEngine* engine,
              std::optional<double> tuned = {});
  ~EngineModel();
  /// From the tables of configs/published.
  static EngineModel shipped(const ForeignEngine* engine, std::optional<double> tuned = {});
  const Tuned& tuned() const { return tuned_; }
  /// Runs of the campaign that is asked for.
  void learn(std::vector<PublishedRun> own);
  const std::vector<PublishedRun>& own_runs() const { return runs_; }
  EngineAnswer predict(const PublishedRun& run) const;
  /// Chances that each of these is the fastest, and the share of its throughput by which the first is
  /// expected to fall short of the fastest: what is wrong for all of them cancels.
  struct Fastest {
    std::vector<double> chances;
    double loss = 0;
  };
  Fastest fastest(const std::vector<PublishedRun>& runs) const;
  /// The step of each run that was learnt, predicted from the others but for its repetitions.
  std::vector<ScoredRow> left_out() const;
  /// Rows that were fitted to: of the engine's own campaigns, and of all others.
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

}  // namespace isobar
