// Nets that no row of a table describes, priced for other engines: counted by their own plans.
#include <gtest/gtest.h>

#include <random>

#include "model/base/error.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/machine/engine.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/counts/step_model.h"
#include "perfmodel/score/engine_model.h"
#include "perfmodel/score/published/published_spec.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

const std::string kOfNets = source_dir() + "/configs/";
constexpr const char* kOtherNets[] = {"swin-era5", "aurora-small", "graphcast-small", "regional-gnn-uk",
                                      "unet-tiny"};

struct OnH100 {
  RunSpec spec;
  Machine machine = load_machine(kOfNets + "machines/dgx-h100.yaml");
  ChipSpec chip = chip_of(machine);
  OnH100(const std::string& net, std::vector<std::string> settings)
      : spec(load_run_spec(kOfNets + "models/" + net + ".yaml", settings)) {}
  PublishedRun run(const Habits& habits = {}) const { return run_of(spec, machine, chip, habits); }
};

double all_flops_of(const PartCounts& p) {
  double flops = 0;
  for (const PassCounts* pass : {&p.forward, &p.backward})
    flops += pass->products + pass->experts + pass->attention;
  return flops;
}

// Matrix FLOPs of a step on all ranks, as the search counts them.
TEST(AskedNets, HaveTheFlopsOfTheSearchsPlans) {
  std::mt19937 random(std::random_device{}());
  for (const char* net : kOtherNets) {
    const std::string dp = std::to_string(1 << random() % 3), mbs = std::to_string(1 + random() % 2);
    const OnH100 asked(net, {"layout.dp=" + dp, "policy.micro_batch=" + mbs, "train.global_batch=24",
                             "policy.recompute=none", "policy.amp=bf16", "policy.attention=flash"});
    if (24 % (std::stoi(dp) * std::stoi(mbs)) != 0) FAIL() << "24 samples are shared by all";
    const PublishedRun r = asked.run();
    const NetCounts& n = count_net(r);
    const double counted = r.global_batch / n.samples *
                           (all_flops_of(n.first) + r.layers * all_flops_of(n.block) + all_flops_of(n.last));
    LayoutModel model(asked.spec, asked.machine);
    EXPECT_NEAR(counted / model.cost(layout_of(asked.spec)).flops, 1, 1e-3) << net << " dp " << dp;
    EXPECT_LT(count_step(r).ceiling_s * r.gpu->peak(r.precision) * r.gpus, counted * (1 + 1e-9)) << net;
  }
}

// Two engines' prices of the same work; ours calls no more kernels than they do.
TEST(AskedNets, TakeAboutAsLongAsOnOurEngine) {
  const ForeignEngine& megatron = engine_named("megatron");
  const EngineModel model = EngineModel::shipped(&megatron);
  for (const char* net : {"aurora-small", "graphcast-small"}) {
    const OnH100 asked(net,
                       {"layout.dp=8", "policy.micro_batch=1", "train.global_batch=8", "policy.amp=bf16"});
    const EngineAnswer a = model.predict(asked.run(megatron.habits));
    LayoutModel own(asked.spec, asked.machine);
    const LayoutCost c = own.cost(layout_of(asked.spec));
    const double busy = c.seconds - c.data;
    EXPECT_GT(a.step.value, c.ceiling) << net;
    EXPECT_LT(a.step.value, 4 * busy) << net;
    EXPECT_GT(a.step.value, 0.5 * busy) << net;
    EXPECT_GT(a.memory.upper, 0.7 * c.memory) << net;
    EXPECT_LT(a.memory.lower, 1.5 * c.memory) << net;
  }
}

// Their steps are launches, a thousand times their device's time: intervals ended at 1e9 seconds.
TEST(AskedNets, TinyOnesHaveIntervalsToUse) {
  const ForeignEngine& megatron = engine_named("megatron");
  const EngineModel model = EngineModel::shipped(&megatron);
  for (const char* net : {"unet-tiny", "gpt-tiny"}) {
    const EngineAnswer a = model.predict(OnH100(net, {"policy.amp=bf16"}).run(megatron.habits));
    EXPECT_GT(a.step.value, 1e-3) << net;
    EXPECT_LT(a.step.value, 1) << net;
    EXPECT_LT(a.step.upper, 20) << net;
  }
}

TEST(AskedNets, DifferByTheirOwnSettings) {
  const auto work = [](const std::vector<std::string>& settings) {
    return count_net(OnH100("swin-era5", settings).run()).block.forward.products;
  };
  EXPECT_EQ(work({}), work({"layout.dp=2", "train.global_batch=32"}));
  EXPECT_NE(work({}), work({"net.mlp_ratio=2"}));
}

// Trained parts decide weight gradients, and an optimizer decides the memory.
TEST(AskedNets, RefuseTrainingsThatNoClosedFormHas) {
  for (const char* net : {"llama3-8b", "vit-l-16", "swin-era5"})
    for (const auto& [setting, key] : {std::pair{"train.freeze=[blocks.*]", "train.freeze"},
                                       {"train.ema=0.99", "train.ema"},
                                       {"train.optimizer=sgd", "train.optimizer"}})
      try {
        OnH100(net, {setting}).run();
        FAIL() << net << " " << setting;
      } catch (const ConfigError& e) {
        EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
      }
}

TEST(AskedNets, RefuseWhatPublishedRunsOfExpertsDoNotSay) {
  for (const auto& [setting, key] : {std::pair{"net.expert_imbalance=1.5", "net.expert_imbalance"},
                                     {"net.expert_capacity_factor=0.5", "net.expert_capacity_factor"}})
    try {
      OnH100("mixtral-8x7b", {setting}).run();
      FAIL() << setting;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
    }
  EXPECT_NO_THROW(OnH100("mixtral-8x7b", {"net.expert_capacity_factor=1.25"}).run());
}

// A backward pass without weight gradients has half of its products: 4 of 6 FLOPs a parameter are left.
TEST(AskedNets, WithAdaptersComputeNoOtherWeightGradients) {
  const auto counts = [](const std::vector<std::string>& further) {
    std::vector<std::string> settings{"layout.dp=8", "policy.micro_batch=1", "train.global_batch=8",
                                      "policy.recompute=none", "policy.amp=bf16"};
    settings.insert(settings.end(), further.begin(), further.end());
    return count_step(OnH100("llama3-8b", settings).run());
  };
  const StepCounts all = counts({}),
                   adapters = counts({"train.lora_rank=8", "train.lora_targets=[blocks.*.attn]"});
  EXPECT_NEAR(adapters.gemm_s / all.gemm_s, 4.0 / 6, 0.01);
  EXPECT_EQ(adapters.dp_s + adapters.zero3_s, 0);
  EXPECT_EQ(adapters.optimizer_s, 0);
}

// Their pipelines are of unequal blocks, and no ring of keys passes their windows and edges.
TEST(AskedNets, RefuseWhatNoClosedFormHas) {
  for (const auto& [setting, key] : {std::pair{"layout.pp=2", "layout.pp"}, {"layout.cp=2", "layout.cp"}})
    try {
      OnH100("swin-era5", {setting, "train.global_batch=32"}).run();
      FAIL() << setting;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace isobar::perf
