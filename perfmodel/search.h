// Which layout: every way to cut a net over so many accelerators, with every policy and placement, priced by
// the closed form; what does not fit is dropped.
//
//   SearchResult r = search(spec, machine, {.top = 5});     // gpus: spec.layout.world()
//   r.best[0].layout, r.best[0].cost.seconds; r.considered
//
// Layouts with the same sections and pipeline share a lower bound, the time of their blocks alone; what lies
// above the worst of the best is not priced one by one, but counts as considered. `pareto` prices all of it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "perfmodel/layouts/layout_model.h"

namespace isobar {

/// What a search keeps to; the rest it tries.
struct GivenLayout {
  std::optional<int64_t> dp, tp, cp, pp, vpp, micro_batch;
  std::optional<ScheduleKind> schedule;
  std::optional<int> zero, recompute, cp_kind, order;  // indices as in Layout
  std::optional<bool> sequence_parallel;               // of layouts with tp > 1
  std::string text;                                    // "layout.tp=8, policy.zero=1", for people
};
/// Of `--set` assignments, whose values `spec` holds: those of layout.* and policy.* that a search would
/// choose itself. Others are the specification's for every layout. Throws ConfigError for a micro-batch of 0.
GivenLayout given_layout(const RunSpec& spec, const std::vector<std::string>& assignments);

struct SearchSpace {
  bool context_parallel = true, orders = true, sequence_parallel_off = true;
  std::vector<int> recompute{0, 1, 2}, zero{0, 1, 2, 3};
  std::vector<ScheduleKind> schedules{ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                      ScheduleKind::zb_h1};
  int64_t max_chunks = 16;
  int64_t max_tp = 64;
  GivenLayout given = {};  // stands above the rest of the space
  /// Megatron-LM's space, which transformer-perf-estimates calls 1-D: tp with sequence parallelism, dp with
  /// sharded optimizer, pp by 1F1B, the micro-batch, and which axes are neighbours.
  static SearchSpace one_d();
};

struct SearchOptions {
  size_t top = 5;
  bool pareto = false;
  bool confirm = true;  // place the finalists' plans
  SearchSpace space = {};
};

struct LayoutCandidate {
  Layout layout;
  LayoutCost cost;
  int64_t arena = 0;  // bytes of the placed plan of its fullest rank; 0: not placed
};

struct SearchResult {
  std::vector<LayoutCandidate> best;    // fastest first, one for each (dp, tp, cp, pp)
  std::vector<LayoutCandidate> pareto;  // faster ones need more memory
  int64_t considered = 0;               // layouts, policies and placements
  int64_t priced = 0;                   // of them, one by one
  int64_t too_large = 0;                // of them, for the memory
  int64_t too_large_when_placed = 0;
  size_t sections = 0;  // distinct (tp, cp, sp, recompute) that were built
  double seconds = 0;
};

/// No layout fits the memory: not bad input, but an answer (exit code 4).
class DoesNotFit : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// Throws DoesNotFit with the least memory that a layout needs, and ConfigError when the accelerators cannot
/// be shared, with the nearest numbers that can.
SearchResult search(const RunSpec& spec, const Machine& machine, const SearchOptions& options);

/// A machine that is faster or slower in one respect: "nvlink_bw*2", "net_bw*0.5", "flops*2",
/// "memory_bw*1.5", "memory_size*0.5", "nvlink_ranks*8", "latency*0.5". Throws ConfigError.
Machine what_if(Machine machine, const std::string& change);
const std::vector<std::string>& what_if_quantities();

/// What would have to change for another of the candidates to be the best: the least factor by which each
/// quantity must grow or shrink.
struct Turn {
  std::string quantity;
  double factor = 1;
  Layout layout;  // the best then
  double seconds = 0;
};
std::vector<Turn> turns(const RunSpec& spec, const Machine& machine,
                        const std::vector<LayoutCandidate>& candidates);

}  // namespace isobar
