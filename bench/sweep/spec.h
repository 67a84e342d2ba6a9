// A sweep file: which runs to derive from a base configuration, with repetitions, order and limits.
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
// `tp: any` (also cp, pp) is every divisor of the world sizes. `weak_scaling: [1, 2, 4]` varies gpus with a
// proportional global batch, `strong_scaling: [1, 2, 4]` with a constant one. `zip: [{gpus: [1, 2],
// policy.micro_batch: [4, 2]}]` advances keys together. `baselines: [{gpus: 1}]` adds trials that the summary
// compares with. Exclusions may hold bounds, `policy.micro_batch: ">= 4"`, or be an expression, `tp * pp >
// 4`. `when: [{if: {amp: bf16}, axes: {policy.bucket_mb: [1, 4]}}]` adds axes to some combinations.
//
//   SweepSpec sweep = load_sweep_spec("demo.yaml");   // throws ConfigError naming file, key and fix
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/sweep/condition.h"

namespace isobar::sweep {

/// Key of the world size (`gpus:` or `ranks:` in a sweep file); all other keys are RunSpec keys such as
/// `policy.amp`.
inline constexpr const char* kRanksKey = "ranks";

/// RunSpec keys with their values, sorted by key.
using Assignments = std::vector<std::pair<std::string, nlohmann::json>>;

struct Axis {
  std::string key;
  std::vector<nlohmann::json> values;
  bool any = false;  // given as `any`: values are the divisors of the world sizes
};

/// Axes for the combinations that meet the condition; others keep the value of `set:` or the base.
struct ConditionalAxes {
  Condition condition;
  std::vector<Axis> axes;
};

struct TrialLimits {
  double timeout_s = 3600;       // wall-clock limit of one trial
  bool timeout_given = false;    // set in the sweep file; otherwise a forecast may shorten it
  std::optional<double> hang_s;  // limit without progress; unset = run.hang_timeout + 30 s; 0 = none
  int64_t memory_limit_mb = 0;   // resident, all ranks together (10^6 bytes); 0 = none
  double grace_s = 5;            // from SIGTERM to SIGKILL
  double noise_limit = 0;        // (p90 - p10) / median of steps above which a run is noisy; 0 = none
};

// The JSON library's noexcept move contains an assertion that could throw.
struct SweepSpec {  // NOLINT(bugprone-exception-escape)
  std::string file;
  std::string base;                                 // path of the run configuration, resolved
  nlohmann::json about = nlohmann::json::object();  // user's name, tags, note; {} = none
  std::string machine;                              // path or name of a shipped machine file; "" = none
  nlohmann::json base_json;                         // content after inheritance
  Assignments set;
  std::vector<Axis> axes;
  // Groups of keys that vary together, each crossed with the axes: `zip:`, weak and strong scaling
  std::vector<std::vector<Assignments>> zipped;
  std::vector<Assignments> include;
  std::vector<Assignments> baselines;  // additional combinations to compare with
  std::vector<ConditionalAxes> when;   // applied in order: a rule sees the settings of earlier ones
  std::vector<Condition> exclude;
  int64_t min_ranks = 1, max_ranks = 0;  // max 0 = unbounded
  int64_t repetitions = 1;
  int64_t repeat_contended = 1;  // most repeats of a contended trial (repeats.h); 0: none
  double probe_infeasible = 0;   // share of trials predicted infeasible that run anyway
  int64_t warmup = 2;            // first steps that statistics exclude
  bool random_order = true;      // false: in listed order
  uint64_t seed = 0;             // of the order
  TrialLimits limits;
};

/// Sets a key in a run's JSON.
void assign(nlohmann::json& j, const std::string& key, const nlohmann::json& value);

/// `words`: KEY=VALUES of the command line (compose.h).
SweepSpec load_sweep_spec(const std::string& path, const std::vector<std::string>& words = {});

}  // namespace isobar::sweep
