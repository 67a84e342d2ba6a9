// Searches with the optimizer's moments, and with ZeRO 3 the parameters, offloaded to host memory: less
// accelerator memory, more transfers a step.
//
//   for (const Offloaded& o : offloaded(spec, machine, space))  // the best of each, or why there is none
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/ask/search.h"

namespace isobar::perf {

struct Offloaded {
  std::string what, set;                // "moments", "policy.offload_optimizer=true"
  std::optional<LayoutCandidate> best;  // none: `why`
  std::string why;
};
/// Offloads that `spec` does not use already. Its layout gives the number of accelerators.
std::vector<Offloaded> offloaded(const RunSpec& spec, const Machine& machine, const SearchSpace& space);

}  // namespace isobar::perf
