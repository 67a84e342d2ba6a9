// Steps of very many parts or micro-batches against whole ones.
#include "perfmodel/step/long_step.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "perfmodel/ask/predict.h"
#include "tests/perfmodel/support.h"

namespace isobar {
namespace {

using Words = std::vector<std::string>;

RunSpec spec_of(const std::string& model, const Words& more) {
  Words words = {"run.threads=1", "run.device=auto"};
  words.insert(words.end(), more.begin(), more.end());
  return load_run_spec(source_dir() + "/configs/models/" + model + ".yaml", words);
}

void expect_near(double got, double want, double share, const char* what) {
  EXPECT_NEAR(got, want, share * want) << what;
}

struct Long {
  const char* model;
  Words words;
};

class LongSteps : public ::testing::TestWithParam<Long> {};

TEST_P(LongSteps, AreCountedAsEveryPartAndMicroBatch) {
  const RunSpec spec = spec_of(GetParam().model, GetParam().words);
  const Machine m = test::machine();
  const Conditions where = conditions_of(spec, m, {.threads = 1});
  const auto count = [&](const LongStep& longer) {
    return count_step(spec, {}, where, /*cache_share=*/0, m.values(), longer);
  };
  const CountedStep got = count({.parts = 6, .bytes = 1}), want = count({.parts = 1 << 30, .bytes = 1e18});
  EXPECT_TRUE(got.terms.growth) << "was counted whole";
  EXPECT_FALSE(want.terms.growth);
  expect_near(got.flops, want.flops, 1e-9, "flops");
  expect_near(got.parameters, want.parameters, 1e-12, "parameters");
  EXPECT_EQ(got.terms.samples, want.terms.samples);
  for (size_t i = 0; i < kCoefs; ++i) {
    expect_near(got.terms.total[i], want.terms.total[i], 1e-9, info_of(i).name);
    expect_near(got.terms.read[i], want.terms.read[i], 1e-9, info_of(i).name);
  }
  Counts k = m.values();
  for (const double slower : {1.0, 100.0}) {  // short and long waits
    k[index_of(Coef::wire_host)] *= slower;
    const StepCost a = step_cost(got.terms, k), b = step_cost(want.terms, k);
    expect_near(a.total, b.total, 1e-3, "seconds");
    expect_near(a.compute, b.compute, 1e-9, "compute");
    expect_near(a.communication, b.communication, 1e-9, "communication");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, LongSteps,
    ::testing::Values(
        Long{"vit-tiny", {"net.depth=61", "train.global_batch=4"}},
        Long{"vit-tiny", {"train.global_batch=200", "policy.micro_batch=1", "data.workers=1"}},
        Long{"vit-tiny", {"net.depth=61", "train.global_batch=200", "policy.micro_batch=1"}},
        Long{"vit-tiny", {"net.depth=61", "layout.dp=4", "policy.bucket_mb=0.001", "train.global_batch=4"}},
        Long{"vit-tiny",
             {"net.depth=200", "layout.dp=4", "policy.zero=3", "train.global_batch=64",
              "policy.micro_batch=1"}},
        Long{"vit-tiny",
             {"net.depth=61", "layout.tp=2", "policy.sequence_parallel=true", "policy.bucket_mb=0.001",
              "train.global_batch=4"}},
        Long{"vit-tiny", {"net.depth=203", "layout.pp=4", "train.global_batch=64", "policy.micro_batch=1"}},
        Long{"vit-tiny", {"layout.pp=2", "layout.dp=2", "train.global_batch=400", "policy.micro_batch=2"}},
        Long{"regional-gnn-tiny", {"net.num_gnn_layers=61", "train.global_batch=4"}}));

double cpu_seconds_of(const RunSpec& spec, const Machine& m) {
  const std::clock_t begin = std::clock();
  const Prediction p = predict(spec, m, {.device_workspace = [] { return Workspace{}; }});
  EXPECT_GT(p.step_s, 0);
  EXPECT_GT(model_flops(spec), 0);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(LongStep, WhatIsHugeIsPredictedInTwoSeconds) {
  for (const Machine& m : {test::machine(), test::cluster("dgx-h100")})
    for (const Words& words :
         {Words{"net.depth=100000", "layout.dp=1", "train.global_batch=8"},
          {"layout.dp=1", "train.global_batch=131072"},
          {"layout.dp=65536", "train.global_batch=131072"},
          {"net.depth=100000", "layout.dp=64", "layout.pp=8", "train.global_batch=4096"}}) {
      SCOPED_TRACE(m.name + " " + words[0] + " " + words[1]);
      const RunSpec spec = spec_of("llama3-8b", words);
      EXPECT_LT(cpu_seconds_of(spec, m), 2);
    }
}

}  // namespace
}  // namespace isobar
