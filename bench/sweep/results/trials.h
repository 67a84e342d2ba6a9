// The trials of a sweep: every combination of its axes, resolved to a run specification and identified by a
// content hash.
//
//   Matrix m = expand(load_sweep_spec("demo.yaml"));
//   for (const Trial& t : m.trials) …   // in the order in which they run; m.skipped says what cannot and why
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/sweep/spec.h"
#include "model/base/spec/spec.h"

namespace isobar::sweep {

/// Forecast of the performance model for a trial.
struct Forecast {
  double step_s = 0, upper_s = 0;  // of one optimizer step; upper end of the 80 % interval
  double ceiling_s = 0;            // lower bound from the machine's peaks; 0: not known
  double checkpoint_s = 0;         // upper bound of one checkpoint; 0: not known
  int64_t memory_bytes = 0;        // of the fullest rank
  int64_t micro_batch = 0;         // chosen to fit a GPU's memory; 0: given by the trial, or a CPU trial
  double trial_s = 0;              // all steps, without start-up
  double rank_hours = 0;           // the same times ranks
  double cost = 0;                 // of the whole trial, in `currency`; 0: no price
  std::string currency;
  std::string infeasible;    // why it cannot run on the machine; "" = it can
  bool closed_form = false;  // closed form: too many trials for full plans
};

struct Trial {
  std::string id;            // 16 hex digits: SHA-256 of the resolved specification, repetition and repeat
  int64_t repetition = 0;    // 0 … repetitions-1
  std::string repeats = {};  // id of the contended trial that it repeats (repeats.h); "": none
  RunSpec spec;              // run.out is empty until the runner chooses it
  Assignments axes;          // settings of this combination, for tables
  bool baseline = false;     // the summary compares with it
  std::string name = {};     // by what varies in the matrix (naming.h): "dp2 tp1 bf16 #2"
  std::optional<Forecast> forecast = std::nullopt;  // set with a machine file
  int64_t ranks() const { return spec.layout.world(); }
  /// On a cluster it resumes from its last checkpoint if a job ends first.
  bool chained() const {
    return spec.run.command.empty() ? spec.train.checkpoint_every != 0 : !spec.run.resume.empty();
  }
};

struct Skipped {
  Assignments axes;
  std::string reason;
  std::optional<Forecast> forecast = std::nullopt;  // set if predicted not to fit
};

struct Matrix {
  std::vector<Trial> trials;     // in running order: repetition 0, then 1, …, each shuffled
  std::vector<Skipped> skipped;  // rejected by the net or a constraint
  int64_t excluded = 0;          // removed by `exclude:` alone
  int64_t duplicates = 0;        // resolve to a specification already present
};

/// Larger sweeps are rejected, because a sweep is held in memory.
inline constexpr int64_t kMostCombinations = 200'000, kMostTrials = 100'000;

/// Throws ConfigError if no combination can run or there are too many. `progress`: show a bar on stderr if it
/// takes seconds.
Matrix expand(const SweepSpec& sweep, bool progress = false);

/// Reasons, other than memory, why combinations cannot run; reasons that differ only in numbers are merged
/// and shown by their first combination.
struct SkipReason {
  std::string reason;
  Assignments first;
  int64_t count = 0;
};
std::vector<SkipReason> skip_reasons(const Matrix& matrix);

/// `repeat`: number of the repeat of a contended trial; 0: the trial itself.
std::string trial_id(const RunSpec& spec, int64_t repetition, int64_t repeat = 0);
/// Names trials by what varies among them; call it again after adding repeats.
void name_trials(std::vector<Trial>& trials);
nlohmann::json object_of(const Assignments& axes);
/// "gpus=2 amp=bf16", for a combination that is not a trial.
std::string label(const Assignments& axes);
std::string short_key(const std::string& key);        // policy.amp -> amp
std::string show_value(const nlohmann::json& value);  // strings without quotes

}  // namespace isobar::sweep
