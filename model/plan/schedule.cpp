#include "model/plan/schedule.h"

#include <algorithm>
#include <stdexcept>

namespace isobar::plan {
namespace {

// The k-th forward (or backward) of interleaved 1F1B: groups of p micro-batches go through chunk after chunk.
Action virtual_micro(int k, int p, int v, Action::Type type) {
  const int group = k / (p * v), rest = k % (p * v);
  const int chunk = rest / p;
  return {type, type == Action::Type::forward ? chunk : v - 1 - chunk, group * p + rest % p};
}

// 1F1B's order of forwards and input gradients. Stage s has p - s micro-batches in flight, so it can postpone
// s weight gradients and still hold no more than 1F1B's first stage: p. Later stages wait longer at the end
// and have postponed more to fill that time.
std::vector<Action> zero_bubble(int p, int stage, int m) {
  using Type = Action::Type;
  std::vector<Action> out;
  int inputs = 0, weights = 0;
  const auto input = [&] { out.push_back({Type::backward_input, 0, inputs++}); };
  const auto weight = [&] { out.push_back({Type::backward_weight, 0, weights++}); };
  const int warmup = std::min(p - stage - 1, m);
  for (int k = 0; k < warmup; ++k) out.push_back({Type::forward, 0, k});
  for (int k = warmup; k < m; ++k) {
    out.push_back({Type::forward, 0, k});
    input();
    if (inputs - weights > stage) weight();
  }
  while (inputs < m) {
    input();
    weight();
  }
  while (weights < m) weight();
  return out;
}

}  // namespace

std::vector<Action> schedule_actions(PipelineSchedule kind, int p, int stage, int m, int v) {
  using Type = Action::Type;
  std::vector<Action> out;
  const int total = m * v;
  const auto forward = [&](int k) { out.push_back(virtual_micro(k, p, v, Type::forward)); };
  const auto backward = [&](int k) { out.push_back(virtual_micro(k, p, v, Type::backward)); };
  if (v > 1 && m % p != 0)  // a smaller last group would deadlock the stages
    throw std::invalid_argument("an interleaved schedule needs a multiple of " + std::to_string(p) +
                                " micro-batches, not " + std::to_string(m));
  if (kind == PipelineSchedule::zb_h1) {
    if (v > 1) throw std::invalid_argument("zb-h1 has one chunk a stage, not " + std::to_string(v));
    return zero_bubble(p, stage, m);
  }
  int warmup;
  if (kind == PipelineSchedule::gpipe)
    warmup = total;
  else if (kind == PipelineSchedule::one_f_one_b && v == 1)
    warmup = std::min(p - stage - 1, m);
  else
    warmup = std::min(2 * (p - stage - 1) + (v - 1) * p, total);
  for (int k = 0; k < warmup; ++k) forward(k);
  for (int k = warmup; k < total; ++k) {
    forward(k);
    backward(k - warmup);
  }
  for (int k = total - warmup; k < total; ++k) backward(k);
  return out;
}

int64_t rolling_together(PipelineSchedule kind, int64_t p, int64_t m) {
  if (!runs_rollouts(kind)) throw std::invalid_argument(name_of(kind) + " runs no roll-outs");
  return kind == PipelineSchedule::gpipe ? m : std::min(p, m);
}

RollOutIdle rollout_idle(PipelineSchedule kind, int64_t p, int64_t m, int64_t steps, int64_t learnt) {
  const int64_t together = rolling_together(kind, p, m);
  RollOutIdle idle;
  if (p == 1) return idle;
  for (int64_t first = 0; first < m; first += p) {
    const int64_t turns = std::min(p, m - first);
    const auto between = [&](int64_t of) { return static_cast<double>((of - 1) * (p - turns)); };
    idle.forward += between(steps), idle.backward += between(learnt);
  }
  // One fill and one drain for each group of micro-batches that is in flight together
  const auto fills = static_cast<double>((m + together - 1) / together * (p - 1));
  idle.forward += fills, idle.backward += fills;
  return idle;
}

std::vector<Action> rollout_actions(PipelineSchedule kind, int p, int m, int steps, int learnt) {
  using Type = Action::Type;
  std::vector<Action> out;
  const int together = static_cast<int>(rolling_together(kind, p, m));
  for (int first = 0; first < m; first += together) {
    const int end = std::min(m, first + together);
    // At most p micro-batches take turns, so that a step is read soon after it was written.
    for (int group = first; group < end; group += p)
      for (int step = 0; step < steps; ++step)
        for (int micro = group; micro < std::min(end, group + p); ++micro)
          out.push_back({Type::forward, 0, micro, step});
    const size_t forwards = static_cast<size_t>(end - first) * static_cast<size_t>(steps);
    const std::vector<Action> there(out.end() - static_cast<std::ptrdiff_t>(forwards), out.end());
    for (auto a = there.rbegin(); a != there.rend(); ++a)
      if (a->step >= steps - learnt) out.push_back({Type::backward, 0, a->micro, a->step});
  }
  return out;
}

std::vector<int64_t> in_flight(const std::vector<Action>& actions, int v) {
  std::vector<int64_t> now(v, 0), most(v, 0);
  for (const Action& a : actions) {
    int64_t& n = now[a.chunk];
    if (a.type == Action::Type::backward_input) continue;  // its weight gradient still reads the buffers
    n += a.type == Action::Type::forward ? 1 : -1;
    most[a.chunk] = std::max(most[a.chunk], n);
  }
  return most;
}

}  // namespace isobar::plan
