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
    throw ConfigError(spec.file, "policy.schedule", "zb-h1 cannot be executed yet",
                      "set it to 1f1b or gpipe");
  Plan plan = build_vit(spec, rank, workspace);
  // What model/data's Loader keeps, input and target: prefetch batches a worker and the one in use, or one
  // batch when the training thread reads itself, as it always does for validation.
  const NetSpec& n = spec.net;
  const DataSpec& d = spec.data;
  int64_t slots = d.workers == 0 ? 1 : std::max<int64_t>(1, d.workers * d.prefetch) + 1;
  if (!d.valid.empty() || d.train_fraction < 1) ++slots;
  const int64_t batch = (spec.micro_batch() * n.in_channels * n.img_height * n.img_width * 4 + 63) / 64 * 64;
  plan.memory.loader = slots * 2 * batch;
  place(plan);
  return plan;
}

}  // namespace isobar
