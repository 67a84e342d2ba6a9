#include "perfmodel/step/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace isobar {

CheckpointCost checkpoint_cost(const RunSpec& s, double parameters, const Machine& m, int64_t ranks_on_host) {
  constexpr double kF32 = 4;
  CheckpointCost c;
  const double moments = s.train.optimizer == "sgd" ? 1 : 2;
  c.bytes = parameters * (1 + moments) * kF32;
  // With shards every rank writes its own; without, the ranks of one replica write theirs.
  const LayoutSpec& l = s.layout;
  const auto writers = static_cast<double>(s.policy.zero > 0 ? l.world() : l.tp * l.pp);
  const double hosts = std::max(1.0, std::ceil(writers / static_cast<double>(ranks_on_host)));
  c.seconds = c.bytes / hosts * m[Coef::checkpoint].value;
  if (s.train.checkpoint_every > 0) c.per_step = c.seconds / static_cast<double>(s.train.checkpoint_every);
  return c;
}

std::string text_of(const CheckpointCost& c, const RunSpec& s, double step_s) {
  char text[200];
  int n = std::snprintf(text, sizeof text, "a checkpoint of %.3g GB takes %.3g s", 1e-9 * c.bytes, c.seconds);
  if (c.per_step > 0)
    std::snprintf(
        text + n, sizeof text - static_cast<size_t>(n), ": every %lld steps, %.3g ms a step, %.2f %% of it",
        static_cast<long long>(s.train.checkpoint_every), 1e3 * c.per_step, 100 * c.per_step / step_s);
  return text;
}

}  // namespace isobar
