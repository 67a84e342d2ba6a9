// Plans of roll-outs: ranks of any layout fit together, memory is what steps save, and a plan does not grow
// with its steps.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/base/error.h"
#include "model/plan/schedule.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

using Words = std::vector<std::string>;

int64_t saved(const Plan& plan) {
  return plan.memory.by_kind[static_cast<int>(BufferKind::saved)];
}

Plan rolled(int64_t steps, Words more = {}) {
  more.push_back("train.rollout=" + std::to_string(steps));
  more.emplace_back("train.global_batch=4");
  return plan_of("vit-tiny", more);
}

TEST(RollOut, KeepsASlotForEveryStepThatIsGoneBackThrough) {
  const Plan one = rolled(1);
  for (const int64_t steps : {2, 4, 7}) {
    const Plan all = rolled(steps);
    EXPECT_EQ(all.slots, std::vector<int64_t>{steps});
    EXPECT_EQ(saved(all), steps * saved(one));  // a step saves no more than one without roll-out
    EXPECT_EQ(rolled(steps, {"policy.micro_batch=1"}).slots, std::vector<int64_t>{steps});
    EXPECT_EQ(rolled(steps, {"policy.micro_batch=1", "policy.schedule=gpipe"}).slots,
              std::vector<int64_t>{4 * steps});
    EXPECT_EQ(rolled(steps, {"policy.micro_batch=1", "layout.pp=2"}).slots, std::vector<int64_t>{2 * steps});
  }
}

TEST(RollOut, PushForwardTakesTheMemoryOfOneStep) {
  const Plan one = rolled(1);
  for (const int64_t steps : {2, 9}) {
    const Plan last = rolled(steps, {"train.rollout_gradient=last"});
    EXPECT_EQ(saved(last), saved(one));
    EXPECT_EQ(last.memory.arena, one.memory.arena);
  }
}

TEST(RollOut, APlanGrowsNeitherWithStepsNorWithMicroBatches) {
  const auto ops = [](int64_t steps, const Words& more) { return rolled(steps, more).ops.size(); };
  const Words one = {"policy.micro_batch=1"};
  EXPECT_EQ(ops(4, {}), ops(40, {}));
  EXPECT_EQ(ops(4, {"train.rollout_gradient=last"}), ops(40, {"train.rollout_gradient=last"}));
  Words many = one;
  many.emplace_back("train.global_batch=64");
  EXPECT_EQ(
      plan_of("vit-tiny", {"train.rollout=4", "policy.micro_batch=1", "train.global_batch=64"}).ops.size(),
      plan_of("vit-tiny", {"train.rollout=4", "policy.micro_batch=1", "train.global_batch=16"}).ops.size());
}

TEST(RollOut, GrowsByTheStep) {
  const Plan plan = rolled(3, {"train.rollout_every=4"});
  ASSERT_EQ(plan.shorter.size(), 2u);
  const auto passes = [&](const std::vector<Invocation>& list, Pass pass) {
    return std::count_if(list.begin(), list.end(),
                         [&](const Invocation& i) { return plan.routines[i.routine].pass == pass; });
  };
  for (size_t steps = 1; steps <= 3; ++steps) {
    const std::vector<Invocation>& list = steps < 3 ? plan.shorter[steps - 1] : plan.train;
    EXPECT_EQ(passes(list, Pass::forward), static_cast<int64_t>(steps));
    EXPECT_EQ(passes(list, Pass::backward), static_cast<int64_t>(steps));
    EXPECT_EQ(passes(list, Pass::optimizer), 1);
  }
  EXPECT_EQ(saved(plan), saved(rolled(3)));
  RunSpec spec;
  spec.train.rollout = 3, spec.train.rollout_every = 4;
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_EQ(spec.rollout_at(step), std::min<int64_t>(3, 1 + step / 4));
}

// No deadlock, and sends match receives.
TEST(RollOut, RanksOfAnyLayoutUnderstandOneAnother) {
  std::mt19937 random(std::random_device{}());
  const auto pick = [&](const Words& from) { return from[random() % from.size()]; };
  int checked = 0;
  while (checked < 60) {
    const std::string history = pick({"1", "2", "3"}), gradient = pick({"all", "last"});
    const Words words = {
        "layout.dp=" + pick({"1", "2"}),
        "layout.tp=" + pick({"1", "2"}),
        "layout.cp=" + pick({"1", "2"}),
        "layout.pp=" + pick({"1", "2", "3"}),
        "net.depth=3",
        "policy.zero=" + pick({"0", "1", "2", "3"}),
        "policy.micro_batch=" + pick({"1", "2"}),
        "policy.schedule=" + pick({"1f1b", "gpipe"}),
        "policy.recompute=" + pick({"none", "full"}),
        "policy.sequence_parallel=" + pick({"true", "false"}),
        "policy.amp=" + pick({"none", "bf16", "fp16"}),
        "data.history=" + history,
        "net.in_channels=" + std::to_string(std::stoi(history) * std::stoi(pick({"4", "6"}))),
        "train.prediction=" + pick({"state", "increment"}),
        "train.rollout=" + pick({"2", "3", "5"}),
        "train.rollout_gradient=" + gradient,
        "train.rollout_every=" + (gradient == "all" ? pick({"0", "2"}) : "0"),
        "train.global_batch=12"};
    std::string title;
    for (const std::string& w : words) title += w + " ";
    SCOPED_TRACE(title);
    try {
      const RunSpec spec = spec_of("vit-tiny", words);
      std::vector<Plan> plans;
      for (int rank = 0; rank < spec.layout.world(); ++rank)
        plans.push_back(nets::build_plan(spec, rank, odd_workspace));
      EXPECT_NO_THROW(check(plans));
      ++checked;
    } catch (const ConfigError&) {  // no such layout
    }
  }
}

TEST(RollOut, WhatNoScheduleRunsIsRefused) {
  for (const Words& words : {Words{"policy.schedule=interleaved", "layout.pp=2", "layout.vpp=1"},
                             Words{"policy.schedule=zb-h1", "layout.pp=2"}}) {
    Words all = words;
    all.insert(all.end(), {"train.rollout=2", "net.depth=4"});
    try {
      plan_of("vit-tiny", all);
      ADD_FAILURE() << words[0] << " is accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("policy.schedule"), std::string::npos) << e.what();
    }
  }
  for (const auto& [word, key] : {std::pair{"train.rollout_every=3", "train.rollout_every"},
                                  {"train.rollout_gradient=last", "train.rollout_gradient"},
                                  {"data.history=3", "data.history"}})
    try {
      plan_of("vit-tiny", {word});
      ADD_FAILURE() << word << " is accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
    }
}

// The closed form of stages' idle time, against a replay of their order.
TEST(RollOut, StagesWaitAsLongAsTheClosedFormSays) {
  constexpr double kForward = 1, kBackward = 2;
  for (const PipelineSchedule kind : {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe})
    for (const int p : {2, 3, 4})
      for (const int m : {1, 2, 3, 4, 6, 8})
        for (const int steps : {2, 3, 5})
          for (const int learnt : {1, steps}) {
            const std::vector<Action> actions = rollout_actions(kind, p, m, steps, learnt);
            std::map<std::tuple<bool, int, int, int>, double> ends;  // backward, stage, micro, step
            std::vector<double> clock(p, 0);
            std::vector<size_t> next(p, 0);
            for (bool moved = true; moved;) {
              moved = false;
              for (int s = 0; s < p; ++s)
                while (next[s] < actions.size()) {
                  const Action& a = actions[next[s]];
                  const bool back = a.type == Action::Type::backward;
                  double ready = 0;
                  const auto after = [&](bool b, int stage, int step) {
                    const auto end = ends.find({b, stage, a.micro, step});
                    ready = end == ends.end() ? -1 : std::max(ready, end->second);
                    return end != ends.end();
                  };
                  bool can = true;
                  if (!back && s > 0) can = after(false, s - 1, a.step);
                  if (!back && s == 0 && a.step > 0) can = after(false, p - 1, a.step - 1);
                  if (back && s < p - 1) can = after(true, s + 1, a.step);
                  if (back && s == p - 1 && a.step < steps - 1) can = after(true, 0, a.step + 1);
                  if (!can) break;
                  clock[s] = std::max(clock[s], ready) + (back ? kBackward : kForward);
                  ends[{back, s, a.micro, a.step}] = clock[s];
                  ++next[s], moved = true;
                }
            }
            for (int s = 0; s < p; ++s) ASSERT_EQ(next[s], actions.size()) << "stages wait for ever";
            const RollOutIdle idle = rollout_idle(kind, p, m, steps, learnt);
            const double work = m * (steps * kForward + learnt * kBackward);
            const double closed = work + idle.forward * kForward + idle.backward * kBackward;
            const double end = *std::max_element(clock.begin(), clock.end());
            EXPECT_NEAR(end / closed, 1, 0.05) << name_of(kind) << " p " << p << " m " << m << " steps "
                                               << steps << " learnt " << learnt << ": " << end;
          }
}

}  // namespace
}  // namespace isobar::plan
