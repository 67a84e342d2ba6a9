#include "model/plan/schedule.h"

#include <algorithm>
#include <stdexcept>

namespace isobar {
namespace {

// The k-th forward (or backward) of interleaved 1F1B: groups of p micro-batches go through chunk after chunk.
Action virtual_micro(int k, int p, int v, Action::Type type) {
  const int group = k / (p * v), rest = k % (p * v);
  const int chunk = rest / p;
  return {type, type == Action::Type::forward ? chunk : v - 1 - chunk, group * p + rest % p};
}

// 1F1B's order of forwards and input gradients. Stage s has p - s micro-batches between the two, so s weight
// gradients can be put off without holding more than 1F1B's first stage does: p. The later the stage, the
// longer it waits at the end for input gradients to come back to it, and the more it has put off for then.
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

std::vector<Action> schedule_actions(const std::string& kind, int p, int stage, int m, int v) {
  using Type = Action::Type;
  std::vector<Action> out;
  const int total = m * v;
  const auto forward = [&](int k) { out.push_back(virtual_micro(k, p, v, Type::forward)); };
  const auto backward = [&](int k) { out.push_back(virtual_micro(k, p, v, Type::backward)); };
  if (v > 1 && m % p != 0)  // with a smaller last group the stages would wait for each other for ever
    throw std::invalid_argument("an interleaved schedule needs a multiple of " + std::to_string(p) +
                                " micro-batches, not " + std::to_string(m));
  if (kind == "zb-h1" && v == 1) return zero_bubble(p, stage, m);
  int warmup;
  if (kind == "gpipe")
    warmup = total;
  else if (kind == "1f1b" && v == 1)
    warmup = std::min(p - stage - 1, m);
  else if (kind == "interleaved" || kind == "1f1b")
    warmup = std::min(2 * (p - stage - 1) + (v - 1) * p, total);
  else
    throw std::invalid_argument("unknown schedule " + kind);
  for (int k = 0; k < warmup; ++k) forward(k);
  for (int k = warmup; k < total; ++k) {
    forward(k);
    backward(k - warmup);
  }
  for (int k = total - warmup; k < total; ++k) backward(k);
  return out;
}

std::vector<int64_t> in_flight(const std::vector<Action>& actions, int v) {
  std::vector<int64_t> now(v, 0), most(v, 0);
  for (const Action& a : actions) {
    int64_t& n = now[a.chunk];
    if (a.type == Action::Type::backward_input) continue;  // its weight gradient reads the same buffers
    n += a.type == Action::Type::forward ? 1 : -1;
    most[a.chunk] = std::max(most[a.chunk], n);
  }
  return most;
}

}  // namespace isobar
