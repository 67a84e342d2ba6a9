// isobar predict for clusters of accelerators: one layout, or the best of all of them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

struct LayoutQuestion {
  std::vector<int64_t> gpus;  // {}: the layout of the configuration
  size_t top = 5;
  bool pareto = false, json = false;
  bool rates = false;              // what each price is and where it is from, too
  std::string space = "all";       // all | 1d (SearchSpace::one_d)
  double tokens = 0, samples = 0;  // the budget that a training has; 0: none asked for
};

/// Prints the answer. Throws ConfigError for what the net or the machine cannot take.
void answer(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question);

}  // namespace isobar
