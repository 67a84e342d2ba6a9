// The best layouts, machines side by side, whole trainings and their limits, without a process.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "perfmodel/ask/choose/answers.h"
#include "perfmodel/ask/choose/compare.h"
#include "perfmodel/ask/choose/schedule.h"
#include "perfmodel/machine/shipped.h"
#include "tests/paths.h"

namespace isobar::perf {
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
}

// The cheapest of the sure ones, else the likeliest; what is slower and dearer than another is left out.
TEST(Schedule, AdvisesTheCheapestThatIsSure) {
  const auto row = [](double days, double price, double in_time) {
    Scheduled s;
    s.training.days.value = days, s.training.price.value = price, s.in_time = in_time;
    return s;
  };
  std::vector<Scheduled> all{row(9, 5, 0.1), row(5, 6, 0.95), row(4, 7, 0.97), row(6, 6.5, 0.93)};
  EXPECT_EQ(advised(all).training.price.value, 6);
  EXPECT_EQ(worth_it(all).size(), 3u) << "6 days for 6.5 are beaten by 5 for 6";
  all.erase(all.begin() + 1, all.end());
  all.push_back(row(7, 9, 0.4));
  EXPECT_EQ(advised(all).training.days.value, 7);
}

TEST(Schedule, FacilitiesChargeWholeNodesInJobsOrPartsOfSharedOnes) {
  Scheduled s;
  s.choice.spec.layout = {.dp = 20};
  s.training.days = {10, 8, 15};
  const Allocation a = allocation_of({.ranks_per_node = 8, .max_time_s = 43200, .charge = 2}, s);
  EXPECT_EQ(a.nodes, 3);
  EXPECT_DOUBLE_EQ(a.node_hours.value, 720);
  EXPECT_DOUBLE_EQ(a.charged.upper, 2160);
  EXPECT_EQ(std::vector({a.jobs.lower, a.jobs.value, a.jobs.upper}), std::vector({16.0, 20.0, 30.0}));
  const Allocation shared =
      allocation_of({.ranks_per_node = 8, .max_time_s = 43200, .charge = 2, .shares_nodes = true}, s);
  EXPECT_EQ(shared.nodes, 3);
  EXPECT_DOUBLE_EQ(shared.node_hours.value, 600);
}

RunSpec graphcast() {
  RunSpec s = load_run_spec(source_dir() + "/configs/models/graphcast-small.yaml", {});
  s.run.device = RunDevice::automatic;
  return s;
}

// Loader threads are searched: no number of them that is asked for is faster, and fewer are slower.
TEST(Search, LoaderThreadsAreChosenLikeAnyPolicy) {
  const Machine m = cluster("dgx-h100");
  const LayoutQuestion any{.top = 1};
  const Chooser chooser(graphcast(), m, {}, {});
  const LayoutChoice free = chooser.best(graphcast(), 8, any).front();
  for (const int workers : {0, 1, 8}) {
    LayoutQuestion q = any;
    q.keep.fix("workers=" + std::to_string(workers));
    const LayoutChoice fixed = chooser.best(graphcast(), 8, q).front();
    EXPECT_EQ(fixed.spec.data.workers, workers);
    EXPECT_LE(free.step.value, 1.011 * fixed.step.value) << workers;
  }
  EXPECT_GT(free.spec.data.workers, 0);
  LayoutQuestion starved = any;
  starved.keep.fix("workers=0");
  const Limit limit = chooser.limit(chooser.best(graphcast(), 8, starved).front(), starved);
  EXPECT_EQ(limit.what, "data");
  EXPECT_NE(limit.lift.find("--set data.workers="), std::string::npos) << limit.text();
  EXPECT_NE(chooser.limit(free, any).what, "data");
}

// Lifted limits are what two whole searches would find.
TEST(Search, LiftedLimitsAreThoseOfWholeSearches) {
  const Machine m = cluster("dgx-h100");
  double all = 0;
  for (const RunSpec& of : {llama(), graphcast()}) {
    const RunSpec spec = searched(of, 16);
    const SearchResult r = search(spec, m, {.top = 1, .confirm = false, .lifts = true});
    const auto gain = [&](const RunSpec& x, const Machine& on, double samples) {
      const SearchResult whole = search(x, on, {.top = 1, .confirm = false});
      const double g = samples * r.best.front().score() / whole.best.front().score() - 1;
      return g > kNamedGain ? g : 0;
    };
    RunSpec twice = spec;
    twice.train.global_batch *= 2;
    EXPECT_NEAR(r.lifted.batch, gain(twice, m, 2), 1e-9);
    EXPECT_NEAR(r.lifted.memory, gain(spec, what_if(m, "memory_size*2"), 1), 1e-9);
    all += r.lifted.batch + r.lifted.memory;
  }
  EXPECT_GT(all, kNamedGain);
}

TEST(Search, TheBestBatchIsThatOfTheSingleSearches) {
  const Machine m = cluster("dgx-h100");
  const Chooser chooser(llama(), m, {}, {});
  LayoutQuestion q{.top = 1, .batches = {32, 64, 128}};
  q.keep.fix("pp=1,zero=1..2,recompute=full,cp=1..2");
  const LayoutChoice best = chooser.best(llama(), 64, q).front();
  for (const int64_t batch : q.batches) {
    const LayoutChoice one =
        chooser.best(llama(), 64, {.top = 1, .keep = q.keep, .batches = {batch}}).front();
    EXPECT_EQ(one.spec.train.global_batch, batch);
    EXPECT_GE(one.score(), best.score());
  }
  q.batches = {1, 64};  // the first feeds too few
  q.keep.fix("tp=1,cp=1,pp=1");
  EXPECT_EQ(chooser.best(llama(), 64, q).front().spec.train.global_batch, 64);
}

// A machine with faster links is certainly no slower: its other errors are the same.
TEST(Compare, VariantsOfOneMachineShareItsErrors) {
  const Machine m = cluster("dgx-h100");
  LayoutQuestion q{.gpus = {64}, .top = 1};
  q.keep.fix(
      "tp=8,cp=1,pp=1,zero=1,micro_batch=1,recompute=full,order=tp-cp-dp-pp,sequence_parallel=true,workers="
      "0");
  const Compared c = compare(with_changes(m, {"nvlink_bw*2"}, q), llama(), q, {}, {});
  ASSERT_EQ(c.rows.size(), 2u);
  EXPECT_GT(beats(c.rows[1], c.rows[0]).faster, 0.9);
  EXPECT_LT(beats(c.rows[0], c.rows[1]).faster, 0.1);
}

TEST(Search, ErrorsNameWhatBindsAndTheNearestThatWorks) {
  const Machine m = cluster("dgx-h100");
  const auto refusal = [&](const EngineQuestion& engine, const char* fixed, int64_t gpus) {
    LayoutQuestion q{.top = 1};
    if (*fixed) q.keep.fix(fixed);
    try {
      Chooser(llama(), m, engine, {}).best(llama(), gpus, q);
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("(accepted)");
  };
  const std::string fsdp = refusal({"fsdp"}, "", 128);
  for (const char* part : {"dp of 128", "batch of 64", "--global-batch 128", "--gpus 64", "fsdp has no tp"})
    EXPECT_NE(fsdp.find(part), std::string::npos) << fsdp;
  EXPECT_EQ(fsdp.find("leave out fsdp"), std::string::npos) << fsdp;
  const std::string axis = refusal({}, "dp=128", 128);
  EXPECT_NE(axis.find("leave out --fix dp=128"), std::string::npos) << axis;
}

TEST(Search, AnyNumberOfThreadsFindsTheSame) {
  const Machine m = cluster("dgx-h100");
  for (const RunSpec& spec : {searched(llama(), 64), searched(graphcast(), 8)}) {
    const SearchResult one = search(spec, m, {.top = 6, .lifts = true, .threads = 1});
    for (const int threads : {2, 3}) {
      const SearchResult many = search(spec, m, {.top = 6, .lifts = true, .threads = threads});
      EXPECT_EQ(many.considered, one.considered);
      EXPECT_EQ(many.lifted.batch, one.lifted.batch);
      EXPECT_EQ(many.lifted.memory, one.lifted.memory);
      ASSERT_GE(many.best.size(), 6u);
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(text_of(many.best[i].layout), text_of(one.best[i].layout));
        EXPECT_EQ(many.best[i].cost.seconds, one.best[i].cost.seconds);
      }
    }
  }
}

TEST(Search, AReplayBufferIsFilledByOneMicroBatch) {
  const RunSpec spec = load_run_spec(source_dir() + "/configs/models/aurora-tiny.yaml",
                                     {"train.replay_capacity=10", "train.global_batch=8"});
  const SearchResult found = search(searched(spec, 4), cluster("dgx-h100"), {.top = 8});
  ASSERT_FALSE(found.best.empty());
  for (const LayoutCandidate& c : found.best) EXPECT_EQ(c.layout.dp * c.layout.micro_batch, 8);
}

// Configurations fit the machine that their first lines name, else eight H100.
TEST(Shipped, ConfigurationsFitTheMachineThatTheyName) {
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/configs/models")) {
    const std::string text = read_file(file.path(), most::table, "");
    const size_t at = text.find("# Fits ");
    const size_t from = at + 7, to = text.find_first_of(".\n", from);
    const Machine m = cluster(at == std::string::npos ? "dgx-h100" : text.substr(from, to - from));
    RunSpec s = load_run_spec(file.path(), {});
    s.run.device = RunDevice::automatic;
    EXPECT_TRUE(predict(choose_micro_batch(s, m, {}).spec, m, {}).fits()) << file.path() << " on " << m.name;
  }
}

TEST(Offload, SavesMemoryAndIsNoFaster) {
  const SearchAnswer a = answer_search(llama(), cluster("dgx-h100"), 8, {.offload = true}, {});
  const double without = a.found.best.front().cost.seconds;
  ASSERT_EQ(a.offloaded.size(), 2u);
  for (const Offloaded& o : a.offloaded) {
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

// 126 blocks, embedding and head make 128 equal chunks. The engine's own prices choose the policy of each
// (dp, tp, cp, pp, ep).
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
}  // namespace isobar::perf
