// A layout on a machine in the figures by which layouts are compared, whichever engine runs it; and the best
// layouts on a number of accelerators.
//
//   const Chooser chooser(spec, machine, {"isobar"}, options);
//   LayoutChoice c = chooser.own(spec);                        // the configuration's layout
//   std::vector<LayoutChoice> best = chooser.best(spec, 64, question);
//   c.step.value, c.fits, c.per_sample().price
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/base/rounded.h"
#include "perfmodel/ask/choose/engine_on.h"
#include "perfmodel/ask/choose/question.h"
#include "perfmodel/ask/predict.h"

namespace isobar {

struct LayoutChoice {
  RunSpec spec;
  Machine machine;
  Known step;    // seconds, 80 % interval
  Known memory;  // bytes of the fullest rank
  double there = 0, fits = 1, mfu = 0;
  CheckpointCost checkpoint;

  int64_t ranks() const { return spec.layout.world(); }
  double score() const { return step.value / fits; }
  Known samples_per_s() const { return step.inverse(static_cast<double>(spec.train.global_batch)); }
  /// Price of a sample, by the machine file; 0: the file has none.
  Known price() const;
  Known kwh() const;
};

/// Figures of a prediction for Isobar's own engine.
LayoutChoice choice_of(const RunSpec& spec, const Prediction& p, const Machine& m,
                       const PredictOptions& options);
/// Figures of another engine's prediction; MFU is by model FLOPs.
LayoutChoice choice_of(const EngineLayout& l, const EngineOn& engine, const Machine& m);

class Chooser {
 public:
  Chooser(const RunSpec& spec, const Machine& machine, const EngineQuestion& engine,
          const PredictOptions& options);
  ~Chooser();
  const Machine& machine() const { return machine_; }
  /// The configuration's own layout. Throws ConfigError.
  LayoutChoice own(const RunSpec& spec) const;
  /// Least score first, one for each (dp, tp, cp, ep, pp). Throws ConfigError, DoesNotFit.
  std::vector<LayoutChoice> best(const RunSpec& spec, int64_t gpus, const LayoutQuestion& q) const;

 private:
  Machine machine_;
  PredictOptions options_;
  std::unique_ptr<EngineOn> engine_;  // nullptr: Isobar's own engine
};

/// The run on this number of accelerators, whatever its layout.
RunSpec searched(RunSpec spec, int64_t gpus);

}  // namespace isobar
