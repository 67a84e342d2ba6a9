#include "model/nets/build.h"

#include "model/base/error.h"
#include "model/nets/vit.h"

namespace isobar {

Plan build_plan(const RunSpec& spec, int rank, const Workspace& workspace) {
  validate(spec);
  const auto only = [&](int64_t value, const char* key) {
    if (value != 1)
      throw ConfigError(spec.file, key, std::to_string(value) + " cannot be executed yet: only dp is",
                        std::string("set ") + key + " to 1 and use layout.dp");
  };
  only(spec.layout.tp, "layout.tp");
  only(spec.layout.cp, "layout.cp");
  only(spec.layout.pp, "layout.pp");
  only(spec.layout.vpp, "layout.vpp");
  if (spec.policy.zero != 0)
    throw ConfigError(spec.file, "policy.zero", "ZeRO stages above 0 cannot be executed yet", "set it to 0");
  if (spec.policy.recompute != "none")
    throw ConfigError(spec.file, "policy.recompute", "cannot be executed yet", "set it to none");
  if (spec.policy.schedule == "zb-h1")
    throw ConfigError(spec.file, "policy.schedule", "zb-h1 cannot be executed yet", "set it to 1f1b or gpipe");
  Plan plan = build_vit(spec, rank, workspace);
  // Loader slots: prefetch batches a worker, one batch when the training thread reads itself; input and
  // target.
  const NetSpec& n = spec.net;
  const int64_t slots = std::max<int64_t>(1, spec.data.workers * spec.data.prefetch);
  plan.memory.loader =
      slots * spec.micro_batch() * (n.in_channels + n.out_channels) * n.img_height * n.img_width * 4;
  place(plan);
  return plan;
}

}  // namespace isobar
