// Low-rank adapters on every linear of the nets without a reference in tests/engine/lora.cpp: layouts train
// like one rank, and only the adapters change.
#include "tests/engine/layouts.h"

namespace isobar::engine {
namespace {

TestNet adapted(TestNet net) {
  net.set = net.set + Words{"train.lora_rank=3", "train.lora_alpha=6", "train.lora_targets=['*']"};
  return net;
}

void expect_learns_by_adapters_alone(const TestNet& net) {
  const TrainedNet& one = one_rank(adapted(net));
  EXPECT_LT(one.record.losses.at(10), 0.995 * one.record.losses.at(1));
  TestNet stays = adapted(net);
  stays.set.push_back("train.lr=1e-30");
  const TrainedNet& begun = one_rank(stays);
  size_t adapters = 0;
  for (const auto& [name, t] : one.weights.tensors) {
    const bool adapter = name.find(".lora_") != std::string::npos;
    adapters += adapter ? 1 : 0;
    if (!adapter) EXPECT_EQ(t.values, begun.weights.tensors.at(name).values) << name;
  }
  EXPECT_GT(adapters, 10u);
}

TEST(AdaptedAurora, TrainsItsAdaptersAloneLikeOneRank) {
  const TestNet net = adapted(kAurora);
  expect_learns_by_adapters_alone(kAurora);
  expect_like_one_rank({"layout.dp=2", "policy.zero=3", "policy.micro_batch=3"}, net);
  expect_like_one_rank({"layout.tp=2", "layout.dp=2", "policy.zero=2", "policy.sequence_parallel=false",
                        "policy.micro_batch=3"},
                       net);
  expect_like_one_rank({"layout.pp=3", "policy.schedule=zb-h1", "policy.micro_batch=2"}, net);
  expect_like_one_rank({"policy.recompute=full", "layout.pp=2", "policy.micro_batch=2"}, net);
  expect_like_one_rank({"layout.cp=2", "layout.tp=2", "policy.micro_batch=3"}, adapted(tall_aurora()));
}

TEST(AdaptedGraphs, TrainTheirAdaptersAloneLikeOneRank) {
  for (const TestNet& net : {kGraph, kGlobe}) {
    expect_learns_by_adapters_alone(net);
    expect_like_one_rank({"layout.pp=2", "layout.dp=2", "policy.zero=1", "policy.micro_batch=3"},
                         adapted(net));
    expect_like_one_rank({"policy.recompute=selective", "policy.micro_batch=4"}, adapted(net));
  }
}

}  // namespace
}  // namespace isobar::engine
