// What a search finds where the optimizer's moments, and with ZeRO 3 the parameters, wait in host memory:
// less of the accelerator's, for transfers a step.
//
//   for (const Offloaded& o : offloaded(spec, machine, space))  // the best of each, or why there is none
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/search.h"

namespace isobar {

struct Offloaded {
  std::string what, set;                // "moments", "policy.offload_optimizer=true"
  std::optional<LayoutCandidate> best;  // none: `why`
  std::string why;
};
/// Those that `spec` does not ask for itself. Its layout says how many accelerators.
std::vector<Offloaded> offloaded(const RunSpec& spec, const Machine& machine, const SearchSpace& space);
std::string to_text(const std::vector<Offloaded>& all);
nlohmann::json to_json(const std::vector<Offloaded>& all);

}  // namespace isobar
