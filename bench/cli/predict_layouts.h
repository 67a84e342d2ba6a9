// isobar predict: one run on the machine file's hardware, or the best of all layouts on a number of GPUs.
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
  bool offload = false;               // also searches with offloading to host memory
  bool rates = false;                 // also prints each price and its source
  std::string space = "all";          // all | 1d (SearchSpace::one_d)
  double tokens = 0, samples = 0;     // length of a training; 0: not asked for
  double deadline_s = 0, budget = 0;  // its limits; 0: none
  Constraints keep = {};              // for a search
};

SearchSpace space_of(const LayoutQuestion& q);

/// Prints the answer. Throws ConfigError for what the net or the machine cannot take; a number of
/// accelerators without an answer is reported beside the others, and ExitCode thrown at the end. Ends with
/// exit code 4 (CLI::RuntimeError) where the configuration does not fit.
void answer(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question,
            const PredictOptions& options);

}  // namespace isobar
