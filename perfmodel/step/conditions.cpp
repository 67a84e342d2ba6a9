#include "perfmodel/step/conditions.h"

#include <algorithm>

#include "perfmodel/machine/device.h"
#include "perfmodel/step/shapes.h"

namespace isobar::perf {

namespace {

// Kernels of an accelerator take as long in fp16 as in bf16, and fp8 is of products alone.
std::string arithmetic_timed(Amp amp) {
  return amp == Amp::none ? "f32" : amp == Amp::tf32 ? "" : "bf16";
}

}  // namespace

int64_t threads_of(const RunSpec& spec, int64_t cores, int64_t ranks_on_host) {
  return spec.run.threads > 0 ? spec.run.threads : std::max<int64_t>(1, cores / ranks_on_host);
}

Conditions conditions_of(const RunSpec& spec, const Machine& m, const HostShare& host) {
  const int64_t world = spec.layout.world();
  if (device_of(m) == Device::accelerator) {
    Conditions w = conditions_of(*m.accelerator, world, spec.layout.pp);
    w.shapes = m.shapes;
    w.precision = arithmetic_timed(spec.policy.amp);
    return w;
  }
  const int64_t here = host.ranks_on_host > 0 ? std::min(host.ranks_on_host, world) : world;
  return {.ranks = world,
          .stages = spec.layout.pp,
          .meeting = spec.layout.tp * std::max(spec.layout.cp, spec.layout.ep),
          .ranks_on_host = here,
          .threads = host.threads > 0 ? host.threads : threads_of(spec, m.identity.cores, here),
          .cores = m.identity.cores,
          .shapes = m.shapes,
          .precision = case_precision(spec)};
}

Conditions conditions_of(const Accelerator& a, int64_t ranks, int64_t stages) {
  const int64_t here = std::min(ranks, a.host.ranks);
  return {.ranks = ranks,
          .stages = stages,
          .ranks_on_host = here,
          .threads = 1,
          .cores = here,
          .processors = a.processors,
          .host_reduction = a.host.reduction};
}

}  // namespace isobar::perf
