#include "perfmodel/step/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "perfmodel/step/cost.h"

namespace isobar {
namespace {

// Log sigma where no run has shown it: a benchmark met the disk on its own, runs meet it as it is. Nine runs
// at a time on a disk that others used had 0.5 to 0.7.
constexpr double kUnfitted = 0.6;

}  // namespace

double checkpoint_bytes(const RunSpec& s, double parameters) {
  constexpr double kF32 = 4;
  const double moments = s.train.optimizer == "sgd" ? 1 : 2;
  return parameters * (1 + moments) * kF32;
}

Counts count_checkpoint(const RunSpec& s, double parameters, int64_t ranks_on_host) {
  // With shards every rank writes its own; without, the ranks of one replica write theirs.
  const LayoutSpec& l = s.layout;
  const auto writers = static_cast<double>(s.policy.zero > 0 ? l.world() : l.tp * l.pp);
  const double hosts = std::max(1.0, std::ceil(writers / static_cast<double>(ranks_on_host)));
  Counts n{};
  n[index_of(Coef::commit)] = 1;
  n[index_of(Coef::checkpoint)] = checkpoint_bytes(s, parameters) / hosts;
  return n;
}

CheckpointCost checkpoint_cost(const RunSpec& s, double parameters, const Machine& m, int64_t ranks_on_host) {
  const Counts n = count_checkpoint(s, parameters, ranks_on_host);
  CheckpointCost c{.bytes = checkpoint_bytes(s, parameters), .seconds = seconds(n, m.values())};
  const bool known = m.fit && m.fit->spread.contains("checkpoint");
  const double spread = known ? m.fit->spread.at("checkpoint") : kUnfitted;
  double variance = spread * spread;  // of the logarithm
  for (const Coef k : {Coef::commit, Coef::checkpoint}) {
    const double share = n[index_of(k)] * m[k].value / c.seconds;
    variance += std::pow(share * m[k].log_sigma(), 2);
  }
  const double width = std::exp(kNormal80 * std::sqrt(variance));
  c.lower = c.seconds / width;
  c.upper = c.seconds * width;
  if (s.train.checkpoint_every > 0) c.per_step = c.seconds / static_cast<double>(s.train.checkpoint_every);
  return c;
}

std::string text_of(const CheckpointCost& c, const RunSpec& s, double step_s) {
  char text[240];
  int n = std::snprintf(text, sizeof text, "a checkpoint of %.3g GB takes %.3g s (%.3g to %.3g)",
                        1e-9 * c.bytes, c.seconds, c.lower, c.upper);
  if (c.per_step > 0)
    std::snprintf(
        text + n, sizeof text - static_cast<size_t>(n), ": every %lld steps, %.3g ms a step, %.2f %% of it",
        static_cast<long long>(s.train.checkpoint_every), 1e3 * c.per_step, 100 * c.per_step / step_s);
  return text;
}

}  // namespace isobar
