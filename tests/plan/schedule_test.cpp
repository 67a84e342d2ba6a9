// Pipeline schedules against their closed forms, and against a replay of all stages: no deadlock, and the
// published makespan.
#include "model/plan/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

namespace isobar::plan {
namespace {

using Type = Action::Type;

int warmup_of(const std::vector<Action>& actions) {  // forwards before the first backward
  int n = 0;
  while (n < static_cast<int>(actions.size()) && actions[n].type == Type::forward) ++n;
  return n;
}

// Every (micro, chunk) once forward and then once backward.
void expect_complete(const std::vector<Action>& actions, int m, int v) {
  std::map<std::pair<int, int>, int> state;
  for (const Action& a : actions) {
    ASSERT_GE(a.micro, 0);
    ASSERT_LT(a.micro, m);
    ASSERT_GE(a.chunk, 0);
    ASSERT_LT(a.chunk, v);
    int& s = state[{a.micro, a.chunk}];
    ASSERT_EQ(s, a.type == Type::forward ? 0 : 1) << "micro " << a.micro << " chunk " << a.chunk;
    ++s;
  }
  ASSERT_EQ(actions.size(), static_cast<size_t>(2 * m * v));
  ASSERT_EQ(state.size(), static_cast<size_t>(m * v));
}

struct Units {
  int forward = 1, input = 1, weight = 1;  // of one micro-batch on one chunk
};

// Time at which all stages end, with free transfers; -1: deadlock.
int makespan(PipelineSchedule kind, int p, int m, int v, Units t = {}) {
  std::vector<std::vector<Action>> lists;
  lists.reserve(p);
  for (int s = 0; s < p; ++s) lists.push_back(schedule_actions(kind, p, s, m, v));
  std::vector<size_t> next(p, 0);
  std::vector<int> clock(p, 0);
  std::map<std::tuple<bool, int, int>, int> done;  // (backward, virtual stage, micro) -> end
  const int stages = p * v;
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < p; ++s) {
      while (next[s] < lists[s].size()) {
        const Action& a = lists[s][next[s]];
        if (a.type == Type::backward_weight) {  // only its own stage waits for it
          clock[s] += t.weight;
          ++next[s];
          moved = true;
          continue;
        }
        const bool backward = a.type != Type::forward;
        const int units = !backward                        ? t.forward
                          : a.type == Type::backward_input ? t.input
                                                           : t.input + t.weight;
        const int at = a.chunk * p + s;
        int ready = 0;
        bool known = true;
        const auto need = [&](bool b, int stage) {
          const auto it = done.find({b, stage, a.micro});
          known = known && it != done.end();
          if (it != done.end()) ready = std::max(ready, it->second);
        };
        if (!backward && at > 0) need(false, at - 1);
        if (backward) need(false, at);
        if (backward && at < stages - 1) need(true, at + 1);
        if (!known) break;
        clock[s] = std::max(clock[s], ready) + units;
        done[{backward, at, a.micro}] = clock[s];
        ++next[s];
        moved = true;
      }
    }
  }
  for (int s = 0; s < p; ++s)
    if (next[s] != lists[s].size()) return -1;
  return *std::max_element(clock.begin(), clock.end());
}

constexpr int kStages[] = {1, 2, 3, 4, 7, 8, 16};
constexpr int kMicros[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 33, 64};

TEST(Schedule, OneForwardOneBackward) {
  for (const int p : kStages)
    for (const int m : kMicros) {
      SCOPED_TRACE("p " + std::to_string(p) + " m " + std::to_string(m));
      for (int r = 0; r < p; ++r) {
        const auto actions = schedule_actions(PipelineSchedule::one_f_one_b, p, r, m);
        ASSERT_NO_FATAL_FAILURE(expect_complete(actions, m, 1));
        EXPECT_EQ(warmup_of(actions), std::min(p - r, m));
        EXPECT_EQ(in_flight(actions, 1), (std::vector<int64_t>{std::min(p - r, m)}));
      }
      EXPECT_EQ(makespan(PipelineSchedule::one_f_one_b, p, m, 1), 3 * (m + p - 1));
    }
}

TEST(Schedule, GPipeHoldsEveryMicroBatch) {
  for (const int p : kStages)
    for (const int m : kMicros) {
      SCOPED_TRACE("p " + std::to_string(p) + " m " + std::to_string(m));
      for (int r = 0; r < p; ++r) {
        const auto actions = schedule_actions(PipelineSchedule::gpipe, p, r, m);
        ASSERT_NO_FATAL_FAILURE(expect_complete(actions, m, 1));
        EXPECT_EQ(warmup_of(actions), m);
        EXPECT_EQ(in_flight(actions, 1), (std::vector<int64_t>{m}));
      }
      EXPECT_EQ(makespan(PipelineSchedule::gpipe, p, m, 1), 3 * (m + p - 1));
    }
}

TEST(Schedule, InterleavedShrinksTheBubbleByTheChunks) {
  for (const int p : kStages)
    for (const int v : {2, 3, 4})
      for (const int m : {p, 2 * p, 4 * p}) {
        if (m > 64) continue;
        SCOPED_TRACE("p " + std::to_string(p) + " m " + std::to_string(m) + " v " + std::to_string(v));
        for (int r = 0; r < p; ++r) {
          const auto actions = schedule_actions(PipelineSchedule::interleaved, p, r, m, v);
          ASSERT_NO_FATAL_FAILURE(expect_complete(actions, m, v));
          const int warmup = std::min(2 * (p - r - 1) + (v - 1) * p, m * v);
          EXPECT_EQ(warmup_of(actions), std::min(warmup + 1, m * v));
        }
        // m v chunks of 3 units, and a bubble of p - 1 chunks instead of (p - 1) v
        EXPECT_EQ(makespan(PipelineSchedule::interleaved, p, m, v), 3 * (m * v + p - 1));
      }
}

TEST(Schedule, InterleavedRefusesMicroBatchesThatWouldDeadlock) {
  for (const int p : kStages)
    for (const int v : {2, 3})
      for (const int m : kMicros) {
        if (m % p == 0)
          EXPECT_GT(makespan(PipelineSchedule::interleaved, p, m, v), 0);
        else
          EXPECT_THROW(schedule_actions(PipelineSchedule::interleaved, p, 0, m, v), std::invalid_argument);
      }
}

TEST(Schedule, InFlightIsTheMostThatWaitForTheirBackward) {
  for (const int v : {2, 4})
    for (int r = 0; r < 4; ++r) {
      const auto actions = schedule_actions(PipelineSchedule::interleaved, 4, r, 16, v);
      std::vector<int64_t> most(v, 0);
      for (size_t i = 0; i < actions.size(); ++i)  // recounted at every position
        for (int c = 0; c < v; ++c) {
          int64_t open = 0;
          for (size_t j = 0; j <= i; ++j)
            if (actions[j].chunk == c) open += actions[j].type == Type::forward ? 1 : -1;
          most[c] = std::max(most[c], open);
        }
      EXPECT_EQ(in_flight(actions, v), most);
    }
}

TEST(Schedule, ZeroBubbleHoldsNoMoreThanTheFirstStageOfOneForwardOneBackward) {
  for (const int p : kStages)
    for (const int m : kMicros) {
      SCOPED_TRACE("p " + std::to_string(p) + " m " + std::to_string(m));
      for (int r = 0; r < p; ++r) {
        const auto actions = schedule_actions(PipelineSchedule::zb_h1, p, r, m);
        EXPECT_EQ(warmup_of(actions), std::min(p - r, m));
        EXPECT_EQ(in_flight(actions, 1), (std::vector<int64_t>{std::min(p, m)}));
        int forwards = 0, inputs = 0, weights = 0;  // each in ascending order, after its predecessor
        for (const Action& a : actions) {
          int& n = a.type == Type::forward ? forwards : a.type == Type::backward_input ? inputs : weights;
          ASSERT_NE(a.type, Type::backward);
          ASSERT_EQ(a.micro, n++);
          ASSERT_GE(forwards, inputs);
          ASSERT_GE(inputs, weights);
          ASSERT_LE(forwards - weights, p);
        }
        ASSERT_EQ(forwards, m);
        ASSERT_EQ(inputs, m);
        ASSERT_EQ(weights, m);
      }
    }
}

TEST(Schedule, ZeroBubbleLeavesAThirdOfTheBubble) {
  // (p - 1)(tF + tI - tW) from p micro-batches on; each missing one also lacks a weight gradient to fill a
  // unit of the bubble.
  for (const int p : kStages)
    for (int m = 1; m <= 64; ++m) {
      SCOPED_TRACE("p " + std::to_string(p) + " m " + std::to_string(m));
      EXPECT_EQ(makespan(PipelineSchedule::zb_h1, p, m, 1), 3 * m + (p - 1) + std::max(0, p - m));
    }
  for (const Units t : {Units{2, 2, 1}, Units{3, 4, 2}, Units{1, 2, 1}, Units{10, 11, 9}})
    for (const int p : kStages)
      for (const int m : {p, 2 * p, 4 * p})
        EXPECT_EQ(makespan(PipelineSchedule::zb_h1, p, m, 1, t),
                  m * (t.forward + t.input + t.weight) + (p - 1) * (t.forward + t.input - t.weight))
            << "p " << p << " m " << m;
}

TEST(Schedule, ZeroBubbleHasOneChunk) {
  EXPECT_THROW(schedule_actions(PipelineSchedule::zb_h1, 2, 0, 4, 2), std::invalid_argument);
}

}  // namespace
}  // namespace isobar::plan
