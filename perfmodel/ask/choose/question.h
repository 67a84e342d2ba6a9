// Questions about layouts: which numbers of accelerators, which training, whose engine.
//
//   LayoutQuestion q{.gpus = {64}, .tokens = 1e12};
//   q.keep.fix("tp=2..8");
//   search(spec, machine, {.top = q.top, .space = space_of(q)});
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/ask/search.h"
#include "perfmodel/machine/engine.h"

namespace isobar::perf {

struct LayoutQuestion {
  std::vector<int64_t> gpus;  // {}: the layout of the configuration
  size_t top = 5;
  bool pareto = false;
  bool offload = false;                   // also searches with offloading to host memory
  std::string space = "all";              // all | 1d (SearchSpace::one_d)
  double tokens = 0, samples = 0;         // length of a training; 0: not asked for
  double deadline_s = 0, budget = 0;      // its limits; 0: none
  Constraints keep = {};                  // for a search
  std::vector<int64_t> batches = {};      // global batches to choose from; {}: the configuration's
  bool progress = false;                  // on stderr, of searches that take long
  bool all = false;                       // lists every layout that may be the fastest
  const ForeignEngine* engine = nullptr;  // whose axes a search keeps to
};
/// Leaves out what the engine does not have.
void keep_to(const ForeignEngine& engine, SearchSpace& space);

SearchSpace space_of(const LayoutQuestion& q);
bool has_training(const LayoutQuestion& q);

struct EngineQuestion {
  std::string engine = "isobar";     // isobar, a file of configs/engines, or unknown
  std::optional<double> tuned = {};  // 0 … 1; none: the engine's default
  std::string fit = {};              // file of a fit to own runs (isobar fit --engine); "": none
  std::string why = {};              // it was not named, but follows from the run: why; "": it was named
  /// The engine, if it is priced by plans as Isobar's own is (step/engine_prices.h).
  const ForeignEngine* of_plans() const;
  bool foreign() const { return engine != "isobar" && !of_plans(); }
};

/// A question without an answer: why, for which machine and number of accelerators.
struct NoAnswer {
  std::string machine;
  int64_t gpus = 0;  // 0: those of the configuration's layout
  std::string why;
  bool does_not_fit = false;  // else the question is refused
};
NoAnswer no_answer(const std::string& machine, int64_t gpus, const ConfigError& e);

/// Takes engine and tuning from the fit. Throws ConfigError where another engine was named.
void take_fit(const Machine& machine, EngineQuestion& engine);

}  // namespace isobar::perf
