// The trials of a sweep: every combination of its axes, resolved to a run specification, named by content.
//
//   Matrix m = expand(load_sweep_spec("demo.yaml"));
//   for (const Trial& t : m.trials) …   // in the order in which they run; m.skipped says what cannot and why
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/sweep/spec.h"
#include "model/base/spec.h"

namespace isobar {

/// What the performance model says about a trial before it runs.
struct Forecast {
  double step_s = 0, upper_s = 0;  // of one optimizer step; upper end of the 80 % interval
  double ceiling_s = 0;            // no machine of these peaks is faster; 0: not known
  double checkpoint_s = 0;         // of one checkpoint, upper end too; 0: not known
  int64_t memory_bytes = 0;        // of the fullest rank
  int64_t micro_batch = 0;  // that a GPU's memory leaves room for; 0: the trial gives one, or is a CPU's
  double trial_s = 0;       // of all steps, without start-up
  double rank_hours = 0;    // the same times ranks
  double cost = 0;          // of the whole trial, in `currency`; 0: the machine has no price
  std::string currency;
  std::string infeasible;    // why it cannot run there; "" = it can
  bool closed_form = false;  // one of too many trials to place their plans
};

struct Trial {
  std::string id;            // 16 hex digits: SHA-256 of the resolved specification, repetition and repeat
  int64_t repetition = 0;    // 0 … repetitions-1
  std::string repeats = {};  // id of the contended trial that it runs once more (repeats.h); "": none
  RunSpec spec;              // run.out is empty here: the runner chooses it
  Assignments axes;          // what this combination sets, for tables
  bool baseline = false;     // the summary compares with it
  std::string name = {};     // by what varies among the trials of its matrix (naming.h): "dp2 tp1 bf16 #2"
  std::optional<Forecast> forecast = std::nullopt;  // where a machine file was given
  int64_t ranks() const { return spec.layout.world(); }
  /// On a cluster it goes on from its last checkpoint where a job ended before it did.
  bool chained() const { return spec.train.checkpoint_every > 0; }
};

struct Skipped {
  Assignments axes;
  std::string reason;
  std::optional<Forecast> forecast = std::nullopt;  // where the performance model says that it will not fit
};

struct Matrix {
  std::vector<Trial> trials;  // in running order: all of repetition 0, then 1, … each in an order of its own
  std::vector<Skipped> skipped;  // what the net or a constraint cannot take
  int64_t excluded = 0;          // combinations that `exclude:` took out, and nothing else
  int64_t duplicates = 0;        // combinations that resolve to a specification already there
};

/// A sweep is held in memory whole: more are refused.
inline constexpr int64_t kMostCombinations = 200'000, kMostTrials = 100'000;

/// Throws ConfigError when not one combination can be run, or there are too many. `progress`: a bar on stderr
/// where that takes seconds.
Matrix expand(const SweepSpec& sweep, bool progress = false);

/// Why combinations cannot be run, the machine's memory aside: reasons that differ in their numbers only are
/// one, told by the first.
struct SkipReason {
  std::string reason;
  Assignments first;
  int64_t count = 0;
};
std::vector<SkipReason> skip_reasons(const Matrix& matrix);

/// `repeat`: the how manieth repeat of a contended trial it is; 0: the trial itself.
std::string trial_id(const RunSpec& spec, int64_t repetition, int64_t repeat = 0);
/// Names trials by what varies among them; again where repeats have joined them.
void name_trials(std::vector<Trial>& trials);
nlohmann::json object_of(const Assignments& axes);
/// "gpus=2 amp=bf16": a combination that is no trial.
std::string label(const Assignments& axes);
std::string short_key(const std::string& key);        // policy.amp -> amp
std::string show_value(const nlohmann::json& value);  // strings without quotes

}  // namespace isobar
