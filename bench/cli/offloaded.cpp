#include "bench/cli/offloaded.h"

#include <cmath>
#include <cstdio>

namespace isobar {
namespace {

double bytes_of_placed(const LayoutCandidate& c) {
  return c.arena > 0 ? static_cast<double>(c.arena) + c.cost.process + c.cost.nccl : c.cost.memory;
}

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

std::string to_text(const std::vector<Offloaded>& all) {
  std::string out = "\n  offloaded to the host     step s memory GB   fits  layout\n";
  for (const Offloaded& o : all) {
    char s[320];
    if (o.best)
      std::snprintf(s, sizeof s, "  %-22s %9.3g %9.3g %4.0f %%  %s (--set %s)\n", o.what.c_str(),
                    o.best->cost.seconds, 1e-9 * bytes_of_placed(*o.best), 100 * o.best->fits,
                    text_of(o.best->layout).c_str(), o.set.c_str());
    else
      std::snprintf(s, sizeof s, "  %-22s %9s %s\n", o.what.c_str(), "none:", o.why.c_str());
    out += s;
  }
  return out;
}

nlohmann::json to_json(const std::vector<Offloaded>& all) {
  nlohmann::json out = nlohmann::json::array();
  for (const Offloaded& o : all) {
    nlohmann::json j = {{"in_host_memory", o.what}, {"set", o.set}};
    if (o.best)
      j.update({{"step_s", o.best->cost.seconds},
                {"memory_total_bytes", std::llround(bytes_of_placed(*o.best))},
                {"chance_to_fit", o.best->fits},
                {"layout", text_of(o.best->layout)}});
    else
      j["why_none"] = o.why;
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace isobar
