// A sweep file: which runs to make of one base configuration, how often, in which order and within which
// limits.
//
//   base: ../models/vit-tiny.yaml        # relative to this file
//   set: {train.steps: 8}                # fixed overrides
//   axes:                                # every combination becomes a trial
//     gpus: [1, 2]                       # world size: layout.dp = gpus / (tp * cp * pp)
//     policy.amp: [none, bf16]
//   include: [{gpus: 2, policy.bucket_mb: 1}]
//   exclude: [{gpus: 2, policy.amp: bf16}]
//   repetitions: 3
//
// `tp: any` (cp, pp) stands for every divisor of the world sizes. `weak_scaling: [1, 2, 4]` is one line of
// gpus with a global batch in proportion, `strong_scaling: [1, 2, 4]` one with the same batch. `zip: [{gpus:
// [1, 2], policy.micro_batch: [4, 2]}]`: keys that go in step. `baselines: [{gpus: 1}]` are trials besides
// that the summary compares with. An exclusion may say `policy.micro_batch: ">= 4"`, or be an expression:
// `tp * pp > 4`. `when: [{if: {amp: bf16}, axes: {policy.bucket_mb: [1, 4]}}]`: axes of some combinations.
//
//   SweepSpec sweep = load_sweep_spec("demo.yaml");   // throws ConfigError naming file, key and mend
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/sweep/condition.h"

namespace isobar {

/// The key under which the world size (`gpus:` or `ranks:` in a sweep file) travels; every other key is a
/// RunSpec key such as `policy.amp`.
inline constexpr const char* kRanksKey = "ranks";

/// Run-spec keys with their values, sorted by key.
using Assignments = std::vector<std::pair<std::string, nlohmann::json>>;

struct Axis {
  std::string key;
  std::vector<nlohmann::json> values;
  bool any = false;  // was `any`: the values are the divisors of the world sizes
};

/// Axes of those combinations alone for which the condition holds; others keep what `set:` or the base says.
struct ConditionalAxes {
  Condition condition;
  std::vector<Axis> axes;
};

struct TrialLimits {
  double timeout_s = 3600;       // wall clock of one trial
  bool timeout_given = false;    // by the sweep file; else a forecast may shorten it
  std::optional<double> hang_s;  // without progress; unset = run.hang_timeout + 30 s; 0 = never
  int64_t memory_limit_mb = 0;   // resident, all ranks together (10^6 bytes); 0 = none
  double grace_s = 5;            // from SIGTERM to SIGKILL
  double noise_limit = 0;        // (p90 - p10) / median of the steps above which a run is noisy; 0 = never
};

// The JSON library's noexcept move holds a check that could throw.
struct SweepSpec {  // NOLINT(bugprone-exception-escape)
  std::string file;
  std::string base;                                 // path of the run configuration, resolved
  nlohmann::json about = nlohmann::json::object();  // name, tags, note of whoever runs it; {} = none
  std::string machine;       // path of a machine file, or the name of one that comes with Isobar; "" = none
  nlohmann::json base_json;  // its content after inheritance
  Assignments set;
  std::vector<Axis> axes;
  // Keys that vary together, each a list of points crossed with the axes: `zip:`, weak and strong scaling
  std::vector<std::vector<Assignments>> zipped;
  std::vector<Assignments> include;
  std::vector<Assignments> baselines;  // combinations besides, to compare with
  std::vector<ConditionalAxes> when;   // one after the other: a rule sees what those before it set
  std::vector<Condition> exclude;
  int64_t min_ranks = 1, max_ranks = 0;  // 0 = no bound
  int64_t repetitions = 1;
  int64_t repeat_contended = 1;  // times that a contended trial is run once more (repeats.h); 0: never
  double probe_infeasible = 0;   // share of the trials predicted infeasible that run all the same
  int64_t warmup = 2;            // steps at the start that statistics leave out
  bool random_order = true;      // else as listed
  uint64_t seed = 0;             // of the order
  TrialLimits limits;
};

/// Sets a run's key in its JSON.
void assign(nlohmann::json& j, const std::string& key, const nlohmann::json& value);

/// `words`: KEY=VALUES of the command line (compose.h).
SweepSpec load_sweep_spec(const std::string& path, const std::vector<std::string>& words = {});

}  // namespace isobar
