// All that one question about a run or a search gives, computed in one go, for text and JSON
// (reports/answers).
//
//   RunAnswer a = answer_run(spec, machine, question, options);        // the configuration's own layout
//   SearchAnswer s = answer_search(spec, machine, 64, question, options);
//   s.found.best[0].layout, s.prediction.step_s, s.ties.loss
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/nets/layout/memory_ladder.h"
#include "perfmodel/ask/choose/engine_on.h"
#include "perfmodel/ask/choose/schedule.h"
#include "perfmodel/ask/search.h"
#include "perfmodel/ask/smallest_change.h"

namespace isobar::perf {

struct RunAnswer {
  nets::MicroBatchChoice micro_batch;  // its spec is the one that is predicted
  Prediction prediction;
  std::optional<SmallestChange> change;  // where it does not fit
  std::vector<nets::MemoryRung> ladder;  // single changes, then
  std::optional<Training> training;      // where its length was given
  Limit limit;
};
/// Throws ConfigError for what net or machine cannot take.
RunAnswer answer_run(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question,
                     const PredictOptions& options);

struct LayoutRow {
  LayoutCandidate layout;
  Known step;
  double fastest = 0;  // chance, of one of its policies where only the best is listed
};

/// A search with the optimizer's moments, and with ZeRO 3 the parameters, offloaded to host memory: less
/// accelerator memory, more transfers a step.
struct Offloaded {
  std::string what, set;                // "moments", "policy.offload_optimizer=true"
  std::optional<LayoutCandidate> best;  // none: `why`
  std::string why;
};

struct SearchAnswer {
  RunSpec spec;  // with the best layout and batch
  SearchResult found;
  Prediction prediction;        // of the best
  std::vector<LayoutRow> rows;  // the best of each (dp, tp, cp, ep, pp); with question.all, of all policies
  std::vector<Turn> turns;
  Ties ties;                         // among found.variants
  std::vector<Offloaded> offloaded;  // question.offload
  std::optional<Training> training;
  Limit limit;
};
/// Throws ConfigError, DoesNotFit.
SearchAnswer answer_search(const RunSpec& spec, const Machine& machine, int64_t gpus,
                           const LayoutQuestion& question, const PredictOptions& options);

struct EngineRunAnswer {
  EngineLayout layout;
  std::optional<EngineOn::Change> change;  // where it probably does not fit
  bool too_large = false;                  // the whole interval of its memory is more than there is
  std::optional<Training> training;
};
EngineRunAnswer answer_run(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question,
                           const EngineOn& engine);

struct EngineSearchAnswer {
  SearchResult found;                // for Isobar's own engine
  std::vector<EngineLayout> ranked;  // for this one, least score first
  Ties ties;                         // among the first
  std::optional<Training> training;
  Limit limit;
};
EngineSearchAnswer answer_search(const RunSpec& spec, const Machine& machine, int64_t gpus,
                                 const LayoutQuestion& question, const EngineOn& engine);

}  // namespace isobar::perf
