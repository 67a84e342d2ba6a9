// The best layouts, machines side by side, whole trainings and their limits, without a process.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "model/base/error.h"
#include "perfmodel/ask/choose/answers.h"
#include "perfmodel/ask/choose/compare.h"
#include "perfmodel/machine/machine_file.h"
#include "tests/paths.h"

namespace isobar {
namespace {

Machine cluster(const std::string& name) {
  return load_machine(source_dir() + "/configs/machines/" + name + ".yaml");
}

RunSpec llama() {
  RunSpec s = load_run_spec(source_dir() + "/configs/models/llama3-8b.yaml", {"train.global_batch=64"});
  s.run.device = RunDevice::automatic;
  return s;
}

TEST(Chooser, BestIsTheSearchsAndKeepsItsConstraints) {
  LayoutQuestion q{.top = 3};
  q.keep.fix("tp=4");
  const Machine m = cluster("dgx-h100");
  const std::vector<LayoutChoice> best = Chooser(llama(), m, {}, {}).best(llama(), 16, q);
  ASSERT_EQ(best.size(), 3u);
  for (const LayoutChoice& c : best) {
    EXPECT_EQ(c.spec.layout.tp, 4);
    EXPECT_EQ(c.ranks(), 16);
    EXPECT_LE(best.front().score(), c.score());
    EXPECT_TRUE(c.step.lower < c.step.value && c.step.value < c.step.upper);
  }
  const SearchAnswer a = answer_search(llama(), m, 16, q, {});
  EXPECT_EQ(text_of(layout_of(best.front().spec)), text_of(a.found.best.front().layout));
  EXPECT_DOUBLE_EQ(best.front().step.value, a.prediction.step_s);
}

TEST(Chooser, ANumberThatCannotBeSharedIsRefusedAndOneThatIsTooSmallDoesNotFit) {
  const Chooser chooser(llama(), cluster("dgx-h100"), {}, {});
  EXPECT_THROW(chooser.best(llama(), 97, {}), ConfigError);
  RunSpec large = load_run_spec(source_dir() + "/configs/models/llama3-70b.yaml", {"train.global_batch=64"});
  large.run.device = RunDevice::automatic;
  EXPECT_THROW(chooser.best(large, 1, {}), DoesNotFit);
}

TEST(Compare, ChancesAreThoseOfTwoLogNormalNumbers) {
  const Known a{1, 0.9, 1.1}, b{2, 1.8, 2.2};
  EXPECT_GT(chance_less(a, b), 0.99);
  EXPECT_NEAR(chance_less(a, b) + chance_less(b, a), 1, 1e-12);
  EXPECT_DOUBLE_EQ(chance_less(a, a), 0.5);
  EXPECT_DOUBLE_EQ(chance_less({1, 1, 1}, {2, 2, 2}), 1) << "without uncertainty";
}

TEST(Compare, ARowForEachMachineAndNumberAndAReasonForTheOthers) {
  const Compared c =
      compare({{cluster("dgx-h100")}, {cluster("dgx-a100")}}, llama(), {.gpus = {16, 97}}, {}, {});
  ASSERT_EQ(c.rows.size(), 2u);
  ASSERT_EQ(c.none.size(), 2u);
  EXPECT_EQ(c.none[0].gpus, 97);
  EXPECT_FALSE(c.none[0].does_not_fit);
  EXPECT_LT(beats(c.rows[1], c.rows[0]).faster, 0.5) << "an A100 against an H100";
  EXPECT_TRUE(std::isnan(beats(c.rows[0], c.rows[0]).faster));
}

TEST(Compare, WhatIfsAreTheMachineEachChangeAndAllOfThem) {
  const Machine m = cluster("dgx-h100");
  const std::vector<Variant> v = with_changes(m, {"price*0.5", "tokens*2"}, {.tokens = 1e12});
  ASSERT_EQ(v.size(), 4u);
  EXPECT_DOUBLE_EQ(v[1].machine.accelerator->price_per_hour, 0.5 * m.accelerator->price_per_hour);
  EXPECT_DOUBLE_EQ(v[2].longer, 2);
  EXPECT_DOUBLE_EQ(v[3].longer, 2);
  EXPECT_DOUBLE_EQ(v[3].machine.accelerator->price_per_hour, 0.5 * m.accelerator->price_per_hour);
  EXPECT_THROW(with_changes(m, {"tokens*2"}, {}), ConfigError) << "no training was given";
}

TEST(Schedule, TimesAndBillsAreStepsAndFailures) {
  const Machine m = cluster("dgx-h100");
  const LayoutQuestion q{.gpus = {16, 32, 97}, .tokens = 1e10, .deadline_s = 86400};
  std::vector<NoAnswer> none;
  const std::vector<Scheduled> all = schedule(Chooser(llama(), m, {}, {}), llama(), q, none);
  ASSERT_EQ(all.size(), 2u);
  ASSERT_EQ(none.size(), 1u);
  for (const Scheduled& s : all) {
    const double steps = std::ceil(1e10 / 8192 / 64);
    EXPECT_NEAR(s.training.days.value * s.training.useful, s.choice.step.value * steps / 86400, 1e-9);
    EXPECT_NEAR(
        s.training.price.value,
        s.training.days.value * 24 * static_cast<double>(s.choice.ranks()) * m.accelerator->price_per_hour,
        1e-6 * s.training.price.value);
    EXPECT_EQ(s.in_time > 0.5, s.training.days.value < 1);
  }
  EXPECT_GT(all[0].training.days.value, all[1].training.days.value);
  const Scheduled* likely = fewest(all, 0.5);
  EXPECT_TRUE(likely == nullptr || likely->both() >= 0.5);
}

TEST(Offload, SavesMemoryAndIsNoFaster) {
  const RunSpec spec = searched(llama(), 8);
  const Machine m = cluster("dgx-h100");
  const double without = search(spec, m, {.top = 1}).best.front().cost.seconds;
  const std::vector<Offloaded> all = offloaded(spec, m, {});
  ASSERT_EQ(all.size(), 2u);
  for (const Offloaded& o : all) {
    ASSERT_TRUE(o.best) << o.why;
    EXPECT_GE(o.best->cost.seconds, 0.999 * without) << o.what;
  }
}

TEST(EngineOn, LacksWhatItsFileDoesNotName) {
  const Machine m = cluster("dgx-h100");
  EXPECT_THROW(EngineOn(llama(), m, {"no-such-engine"}), ConfigError);
  const EngineOn fsdp(llama(), m, {"fsdp"});
  EXPECT_NE(fsdp.origin().find("for fsdp: coefficients fitted to"), std::string::npos);
  RunSpec spec = llama();
  spec.layout.pp = 2;
  EXPECT_THROW(fsdp.own(spec), ConfigError) << "no pipeline";
}

// 126 blocks, embedding and head make 128 equal chunks. Of each (dp, tp, cp, pp) the engine's own prices
// choose.
TEST(EngineOn, RanksPoliciesByItsOwnPrices) {
  const Machine m = cluster("dgx-h100");
  RunSpec spec =
      load_run_spec(source_dir() + "/configs/models/llama3-405b.yaml", {"train.global_batch=2048"});
  spec.run.device = RunDevice::automatic;
  spec.layout = {.dp = 16384};
  const EngineOn megatron(spec, m, {"megatron"});
  SearchResult found;
  const std::vector<EngineLayout> ranked = megatron.best(spec, {}, found);
  EXPECT_GT(ranked.front().spec.layout.vpp, 1);
  std::map<std::array<int64_t, 5>, double> kept;
  for (const EngineLayout& l : ranked) {
    const LayoutSpec& x = l.spec.layout;
    EXPECT_TRUE(kept.emplace(std::array{x.dp, x.tp, x.cp, x.pp, x.ep}, l.score()).second) << "twice";
  }
  for (size_t i = 0; i < found.variants.size(); i += 397) {
    const EngineLayout other = megatron.own(with_layout(spec, found.variants[i].layout));
    const LayoutSpec& x = other.spec.layout;
    const auto best = kept.find({x.dp, x.tp, x.cp, x.pp, x.ep});
    if (best != kept.end() && other.answer.memory.value <= megatron.memory())
      EXPECT_LE(best->second, other.score() * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace isobar
