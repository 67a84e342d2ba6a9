// Searches all layouts of a net over a number of accelerators, with every policy and placement, priced by the
// closed form; layouts that do not fit are dropped.
//
//   SearchResult r = search(spec, machine, {.top = 5});     // gpus: spec.layout.world()
//   r.best[0].layout, r.best[0].cost.seconds; r.considered
//
// Layouts with the same sections and pipeline share a lower bound, the time of their blocks; those above the
// worst of the best are counted as considered without pricing (`pareto` prices all). The enumeration itself
// obeys constraints, so the best is the best of the allowed ones.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "perfmodel/ask/constraints.h"
#include "perfmodel/layouts/layout_model.h"

namespace isobar::perf {

struct SearchSpace {
  bool context_parallel = true, orders = true, sequence_parallel_off = true;
  std::vector<Recompute> recompute{Recompute::none, Recompute::selective, Recompute::full};
  std::vector<int> zero{0, 1, 2, 3};
  std::vector<PipelineSchedule> schedules{PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
                                          PipelineSchedule::zb_h1};
  int64_t max_chunks = 16;
  int64_t max_tp = 64;
  std::vector<int32_t> workers{0, 1, 2, 4, 8};  // loader threads of a rank, ascending; {}: those of the run
  Constraints keep = {};
  /// Megatron-LM's space, "1-D" in transformer-perf-estimates: tp with sequence parallelism, dp with sharded
  /// optimizer, pp by 1F1B, the micro-batch, and the rank order.
  static SearchSpace one_d();
};

struct SearchOptions {
  size_t top = 5;
  size_t variants = 0;  // of all layouts, including several of one (dp, tp, cp, ep, pp)
  bool pareto = false;
  bool confirm = true;  // places the finalists' plans
  SearchSpace space = {};
  std::shared_ptr<SectionCache> sections = nullptr;  // of an earlier search of this net (LayoutModel)
  bool progress = false;                             // on stderr, of a search of more than two seconds
  bool lifts = false;                                // fills SearchResult::lifted
  int threads = 0;                                   // 0: one for each CPU, at most four
};

struct LayoutCandidate {
  Layout layout;
  LayoutCost cost;
  int64_t arena = 0;  // bytes of the placed plan of its fullest rank; 0: not placed
  double fits = 1;    // chance that its memory fits
  /// The ranking: a run that does not fit has no throughput.
  double score() const { return cost.seconds / fits; }
};

/// Share of samples a second that lifting a limit adds; 0: below kNamedGain, or no such layout.
struct Lifted {
  double batch = 0, memory = 0;  // twice as much of each
};
constexpr double kNamedGain = 0.05;  // below, a limit is not worth a word

struct SearchResult {
  std::vector<LayoutCandidate> best;      // least score first, one for each (dp, tp, cp, ep, pp)
  std::vector<LayoutCandidate> variants;  // as many as requested, least score first; not placed
  std::vector<LayoutCandidate> pareto;    // faster ones need more memory
  int64_t considered = 0;                 // layouts, policies and placements
  int64_t priced = 0;                     // of them, priced individually
  int64_t too_large = 0;                  // of them, found unlikely to fit
  int64_t too_large_when_placed = 0;
  double seconds = 0;
  Lifted lifted;  // with the best layouts of such runs
};

/// No layout fits the memory: an answer, not bad input (exit code 4).
class DoesNotFit : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// Throws DoesNotFit with the least memory of any layout, and ConfigError where no layout is legal. Both name
/// what binds (the batch, a divisor, a constraint) and the nearest change after which there is a layout.
SearchResult search(const RunSpec& spec, const Machine& machine, const SearchOptions& options);

/// A machine changed in one respect: "nvlink_bw*2", "net_bw*0.5", "flops*2", "memory_bw*1.5",
/// "memory_size*0.5", "nvlink_ranks*8", "latency*0.5", "price*0.5". Throws ConfigError.
Machine what_if(Machine machine, const std::string& change);
/// Factor of such a change on training time: "tokens*2", "samples/4" (the machine stays); others: 1.
double training_what_if(const std::string& change);
const std::vector<std::string>& what_if_quantities();

/// A change that makes another candidate the best: the least factor for each quantity.
struct Turn {
  std::string quantity;
  double factor = 1;
  Layout layout;  // the best after the change
  double seconds = 0;
};
std::vector<Turn> turns(LayoutModel& model, const std::vector<LayoutCandidate>& candidates);

}  // namespace isobar::perf
