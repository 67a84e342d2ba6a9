#include "perfmodel/ask/choose/offloaded.h"

namespace isobar::perf {
namespace {

Offloaded searched_with(const RunSpec& spec, const Machine& machine, const SearchSpace& space,
                        std::string what, std::string set) {
  Offloaded out{std::move(what), std::move(set), {}, {}};
  try {
    out.best = search(spec, machine, {.top = 1, .space = space}).best.front();
  } catch (const ConfigError& e) {  // a fixed key forbids it, or it does not fit either
    out.why = e.what();
  }
  return out;
}

}  // namespace

std::vector<Offloaded> offloaded(const RunSpec& spec, const Machine& machine, const SearchSpace& space) {
  std::vector<Offloaded> out;
  RunSpec one = spec;
  one.policy.offload_optimizer = true;
  if (!spec.policy.offload_optimizer)
    out.push_back(searched_with(one, machine, space, "moments", "policy.offload_optimizer=true"));
  if (spec.policy.offload_parameters) return out;
  SearchSpace sharded = space;
  sharded.zero = {3};
  one.policy.zero = 3;
  one.policy.offload_parameters = true;
  out.push_back(searched_with(one, machine, sharded, "moments and parameters",
                              "policy.offload_optimizer=true --set policy.offload_parameters=true"));
  return out;
}

}  // namespace isobar::perf
