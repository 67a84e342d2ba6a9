// The chance that a layout fits, and its effect on a search.
#include "perfmodel/ask/fits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "perfmodel/ask/search.h"
#include "perfmodel/ask/ties.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

TEST(Fits, TheEndsOfAnIntervalAreTenAndNinetyPercent) {
  EXPECT_NEAR(chance_to_fit(80e9, 70e9, 93e9, 80e9), 0.5, 1e-12);
  EXPECT_NEAR(chance_to_fit(80e9, 70e9, 93e9, 93e9), 0.9, 1e-12);
  EXPECT_NEAR(chance_to_fit(80e9, 70e9, 93e9, 70e9), 0.1, 1e-12);
  EXPECT_NEAR(chance_to_fit(10e9, 1e9, 10e9 + kNormal80 * 1e9), 0.9, 1e-12);
  EXPECT_NEAR(chance_to_fit(10e9, 0, 10e9 + 1e3), 1, 1e-12);
}

struct Asked {
  RunSpec spec;
  Machine machine;
};
Asked asked(const std::string& memory) {
  Asked a{load_run_spec(source_dir() + "/configs/models/llama3-8b.yaml",
                        {"layout.dp=1", "layout.tp=1", "layout.cp=1", "layout.pp=1", "train.global_batch=32",
                         "policy.micro_batch=1", "policy.zero=0", "policy.sequence_parallel=false"}),
          load_machine(source_dir() + "/configs/machines/dgx-h100.yaml")};
  a.spec.layout = {.dp = 16};
  a.spec.policy.micro_batch = 0;
  if (!memory.empty()) a.machine = what_if(a.machine, "memory_size*" + memory);
  return a;
}

TEST(Fits, ALayoutIsRankedByItsTimeOverItsChance) {
  const Asked a = asked("");
  SearchOptions options{.top = 30, .variants = 100'000, .pareto = true};
  const SearchResult r = search(a.spec, a.machine, options);
  double last = 0;
  int doubtful = 0;
  for (size_t i = 0; i < std::min(options.top, r.best.size()); ++i) {
    const LayoutCandidate& c = r.best[i];
    EXPECT_GE(c.score(), last);
    last = c.score();
    const double bytes = static_cast<double>(c.arena) + c.cost.process + c.cost.nccl;
    EXPECT_EQ(c.fits, chance_to_fit(bytes, memory_sigma(c.cost, a.machine, c.layout.zero, true),
                                    static_cast<double>(a.machine.accelerator->capacity())));
  }
  for (const LayoutCandidate& c : r.variants) {
    EXPECT_GE(c.fits, 0.5);
    doubtful += c.fits < 0.9;
  }
  EXPECT_GT(doubtful, 0);
}

// An uncertain price that all layouts pay equally does not affect their ranking.
TEST(Ties, WhatLayoutsShareCancels) {
  Asked a = asked("");
  const SearchResult r = search(a.spec, a.machine, {.top = 5, .variants = 12, .confirm = false});
  const auto expected_loss = [&](double wider) {
    Machine m = a.machine;
    Coefficient& k = m[Coef::gemm_bf16];
    k = Coefficient::make(k.value, k.log_sigma() * wider, k.provenance);
    LayoutModel model(a.spec, m);
    const Ties t = ties(model, r.variants, 2);
    EXPECT_EQ(t.telling.size(), 2u);
    EXPECT_NE(t.telling[0], t.telling[1]);
    double sum = 0;
    for (const Ties::Member& one : t.members) sum += one.chance;
    EXPECT_GE(sum, 0.8);
    EXPECT_EQ(model.cost(r.variants[0].layout).seconds, r.variants[0].cost.seconds);  // prices are restored
    return t.loss;
  };
  const double narrow = expected_loss(1), wide = expected_loss(6);
  EXPECT_GT(narrow, 0);
  // Products are seven tenths of the step: six times their uncertainty moves every step by tens of percent.
  EXPECT_LT(std::abs(wide / narrow - 1), 0.25) << narrow << " " << wide;
}

TEST(Ties, OneThatIsFarFasterHasNone) {
  const Asked a = asked("");
  const SearchResult r =
      search(a.spec, a.machine, {.top = 40, .variants = 1'000'000, .pareto = true, .confirm = false});
  LayoutModel model(a.spec, a.machine);
  const std::vector<LayoutCandidate> apart{r.variants.front(), r.variants.back()};
  ASSERT_GT(apart[1].cost.seconds, 3 * apart[0].cost.seconds);
  const Ties t = ties(model, apart, 1);
  ASSERT_EQ(t.members.size(), 1u);
  EXPECT_EQ(t.members[0].index, 0u);
  EXPECT_LT(t.loss, 1e-3);
}

}  // namespace
}  // namespace isobar::perf
