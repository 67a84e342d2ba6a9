// A layout on a machine in the figures by which layouts are compared, whichever engine runs it; and the best
// layouts on a number of accelerators.
//
//   const Chooser chooser(spec, machine, {"isobar"}, options);
//   LayoutChoice c = chooser.own(spec);                        // the configuration's layout
//   std::vector<LayoutChoice> best = chooser.best(spec, 64, question);
//   c.step.value, c.fits, c.per_sample().price
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/base/text/rounded.h"
#include "perfmodel/ask/choose/engine_on.h"
#include "perfmodel/ask/choose/question.h"
#include "perfmodel/ask/layout_predict.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/ask/search.h"

namespace isobar::perf {

struct LayoutChoice {
  RunSpec spec;
  Machine machine;
  Known step;    // seconds, 80 % interval
  Known memory;  // bytes of the fullest rank
  double there = 0, fits = 1, mfu = 0;
  CheckpointCost checkpoint;
  std::vector<std::string> notes = {};  // on the step: what was assumed, or lies outside the fitted runs
  ErrorParts errors = {};               // of the step's logarithm; of another engine all is `own`

  int64_t ranks() const { return spec.layout.world(); }
  /// Memory is known only to a factor of other engines: a certain excess, as of answer_run
  bool too_large() const { return memory.lower > there; }
  double score() const { return step.value / fits / static_cast<double>(spec.train.global_batch); }
  Known samples_per_s() const { return step.inverse(static_cast<double>(spec.train.global_batch)); }
  /// Price of a sample, by the machine file; 0: the file has none.
  Known price() const;
  Known kwh() const;
};

/// Figures of a prediction for Isobar's own engine. `sections`: those of an earlier model of the net.
LayoutChoice choice_of(const RunSpec& spec, const Prediction& p, const Machine& m,
                       const PredictOptions& options,
                       const std::shared_ptr<SectionCache>& sections = nullptr);
/// Figures of another engine's prediction; MFU is by model FLOPs.
LayoutChoice choice_of(const EngineLayout& l, const EngineOn& engine, const Machine& m);

/// The limit of a training step, and the option that lifts it. Each is lifted by itself: loader threads as
/// many as it takes, or twice the network, memory, batch.
struct Limit {
  std::string what;  // data | network inside hosts | network between hosts | memory | batch; "": none of them
  double gain = 0;   // share of samples a second that lifting it adds
  std::string lift;  // the option that lifts it; "": none does
  std::string text() const;
};

/// The largest limit above 5 % of the run's layout.
Limit limit_of(LayoutModel& model, const RunSpec& spec, const Lifted& lifted);

class Chooser {
 public:
  Chooser(const RunSpec& spec, const Machine& machine, const EngineQuestion& engine,
          const PredictOptions& options);
  ~Chooser();
  const Machine& machine() const { return machine_; }
  /// The configuration's own layout. Throws ConfigError.
  LayoutChoice own(const RunSpec& spec) const;
  /// Least score first, one for each (dp, tp, cp, ep, pp) and batch. Throws ConfigError, DoesNotFit.
  std::vector<LayoutChoice> best(const RunSpec& spec, int64_t gpus, const LayoutQuestion& q) const;
  /// The limit of a choice that best() gave, searched again; nothing is known of other engines but the batch.
  Limit limit(const LayoutChoice& c, const LayoutQuestion& q) const;

 private:
  std::vector<LayoutChoice> best_of(const RunSpec& spec, const LayoutQuestion& q) const;
  Machine machine_;
  PredictOptions options_;
  std::unique_ptr<EngineOn> engine_;                // nullptr: Isobar's own engine
  mutable std::shared_ptr<SectionCache> sections_;  // of the net, from one search to the next
};

/// Another engine's best layout of twice the batch against `now`, seconds a sample.
Limit limit_on(const EngineOn& engine, const RunSpec& spec, double now, const LayoutQuestion& q);
/// The run on this number of accelerators, whatever its layout.
RunSpec searched(RunSpec spec, int64_t gpus);
/// Calls `answer` for each batch of the question; a batch without an answer is left out. Throws its error
/// where none has one.
void each_batch(const RunSpec& spec, const LayoutQuestion& q,
                const std::function<void(const RunSpec&)>& answer);

}  // namespace isobar::perf
