// isobar predict: one run on whatever the machine file describes, or the best of all layouts of so many GPUs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "perfmodel/predict.h"
#include "perfmodel/search.h"

namespace isobar {

struct LayoutQuestion {
  std::vector<int64_t> gpus;  // {}: the layout of the configuration
  size_t top = 5;
  bool pareto = false, json = false;
  bool offload = false;               // of a search: what waits in host memory, too
  bool rates = false;                 // what each price is and where it is from, too
  std::string space = "all";          // all | 1d (SearchSpace::one_d)
  double tokens = 0, samples = 0;     // what a training goes through; 0: none asked for
  double deadline_s = 0, budget = 0;  // of it; 0: none
  Constraints keep = {};              // of a search
};

SearchSpace space_of(const LayoutQuestion& q);

/// Prints the answer. Throws ConfigError for what the net or the machine cannot take. Of several numbers of
/// accelerators one that cannot be answered is said beside the others, and ExitCode thrown at the end. Ends
/// with exit code 4 (CLI::RuntimeError) where the configuration does not fit.
void answer(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question,
            const PredictOptions& options);

}  // namespace isobar
