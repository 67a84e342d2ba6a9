// The number of threads that runs use here, and its limit.
#include <cstdio>

#include "bench/doctor/check.h"

namespace isobar::doctor {

Check examine_threads(const engine::CpuPlaces& p) {
  char text[160];
  std::snprintf(text, sizeof text, "%d hardware threads of %d cores in %d NUMA node%s", p.threads, p.cores,
                p.nodes, p.nodes > 1 ? "s" : "");
  Check c{"threads", text};
  if (p.quota) {
    std::snprintf(text, sizeof text, ", of which the control group allows %.3g", *p.quota);
    c.found += text;
  }
  c.found += ": runs use " + std::to_string(p.usable());
  if (p.usable() < p.cores) {
    c.health = Health::look;
    c.mend = "a container or job with a larger limit (docker --cpus, cpu.max) would use more cores";
  } else if (p.nodes > 1) {
    c.health = Health::look;
    c.mend = "memory of another node is slower: compare one rank a node, bound to it (mpiexec -n " +
             std::to_string(p.nodes) + " --map-by numa --bind-to numa), with a single rank";
  }
  return c;
}

}  // namespace isobar::doctor
