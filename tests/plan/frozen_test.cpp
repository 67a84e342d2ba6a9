// Frozen parameters have no gradients, moments, update ops or traffic; both passes read them, and nothing
// else of them is in memory.
#include <gtest/gtest.h>

#include <set>

#include "model/base/error.h"
#include "model/base/names/name_pattern.h"
#include "model/nets/build.h"
#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

using Words = std::vector<std::string>;

RunSpec tiny_spec(const Words& words) {
  return spec_of("vit-tiny", words);
}

struct HeldParams {  // elements of this rank's parameters, without gaps
  int64_t trained = 0, frozen = 0, frozen_matrix = 0, tensors = 0;
};

HeldParams held(const Plan& plan) {
  HeldParams h;
  for (const Param& p : plan.params) {
    (p.frozen ? h.frozen : h.trained) += p.count;
    if (p.frozen && p.matrix) h.frozen_matrix += p.count;
    h.tensors += 1;
  }
  return h;
}

int64_t elements(const Plan& plan, const View& v) {
  return v ? plan.buffers[v.buffer].count : 0;
}

const Words kFreeze = {"train.freeze=[patch_embed, blocks.*.attn, blocks.*.norm1]"};
const Words kLora = {"train.lora_rank=4", "train.lora_targets=[blocks.*.attn, blocks.*.mlp]"};

TEST(NamePattern, IsANameOrItsBeginningUpToADot) {
  EXPECT_TRUE(matches("blocks.3", "blocks.3.attn.q.weight"));
  EXPECT_FALSE(matches("blocks.3", "blocks.31.attn.q.weight"));
  EXPECT_TRUE(matches("blocks.*.attn", "blocks.31.attn.q.weight"));
  EXPECT_TRUE(matches("*.bias", "blocks.0.attn.q.bias"));
  EXPECT_FALSE(matches("*.bias", "blocks.0.attn.q.weight"));
  EXPECT_TRUE(matches("*", "pos_embed"));
  EXPECT_TRUE(matches("*a*b.c", "xaybzb.c"));
  EXPECT_FALSE(matches("head", "header.weight"));
  EXPECT_FALSE(matches("", "head"));
  EXPECT_FALSE(matches("a*b", "a"));
  EXPECT_TRUE(matches("*norm1", "blocks.0.norm1.weight"));
}

// At most 15 elements a tensor are gaps.
TEST(Frozen, MemoryIsThatOfWhatIsTrained) {
  for (const Words& words : {kFreeze, kLora})
    for (const bool sixteen : {false, true}) {
      Words all = words;
      if (sixteen) all.push_back("policy.amp=bf16");
      const Plan plan = nets::build_plan(tiny_spec(all), 0, {});
      const HeldParams h = held(plan);
      const int64_t gaps = 16 * (h.tensors + 8);
      ASSERT_GT(h.frozen, 0);
      const auto near = [&](int64_t is, int64_t wanted, const char* what) {
        EXPECT_GE(is, wanted) << what;
        EXPECT_LE(is, wanted + gaps) << what;
      };
      near(elements(plan, plan.grads_all), h.trained, "gradients");
      near(elements(plan, plan.adam_m), h.trained, "m");
      near(elements(plan, plan.adam_v), h.trained, "v");
      const int64_t f32 = h.trained + h.frozen - (sixteen ? h.frozen_matrix : 0);
      near(elements(plan, plan.params_all), f32, "f32 parameters");
      near(elements(plan, plan.params16_all), sixteen ? h.trained + h.frozen_matrix : 0, "16 bits");
    }
}

// Gradient bytes that a dp rank sends: 2 (n-1)/n of them at stage 0, half of that at 1 and 2; at 3 once for
// each micro-batch.
TEST(Frozen, NothingOfItIsReduced) {
  for (const Words& words : {kFreeze, kLora})
    for (const int64_t zero : {0, 1, 2, 3}) {
      Words all = words;
      for (const std::string& w : {std::string("layout.dp=4"), "policy.zero=" + std::to_string(zero),
                                   std::string("train.global_batch=8"), std::string("policy.micro_batch=2")})
        all.push_back(w);
      const Plan plan = nets::build_plan(tiny_spec(all), 0, {});
      double sent = 0, gathered = 0;
      for (const Op& op : plan.ops) {
        if (op.lane != Lane::dp || op.path.starts_with("optimizer") || op.path.starts_with("metrics"))
          continue;
        if (op.kind == OpKind::all_gather)
          gathered += work(op, plan).wire_bytes;
        else
          sent += work(op, plan).wire_bytes;
      }
      const HeldParams h = held(plan);
      const double wanted = 4.0 * (zero == 0 ? 2 : 1) * 0.75 * static_cast<double>(h.trained);
      EXPECT_GE(sent, wanted) << zero;
      EXPECT_LE(sent, 1.1 * wanted + 4096) << zero;
      if (zero == 0) EXPECT_EQ(gathered, 0);
      if (zero == 1 || zero == 2) {  // parameters updated by other ranks
        double spread = 0;
        for (const Op& op : plan.ops)
          if (op.kind == OpKind::all_gather && op.path.starts_with("params/dp"))
            spread += work(op, plan).wire_bytes;
        EXPECT_LE(spread,
                  2 * (1.1 * 4.0 * 0.75 * static_cast<double>(h.trained) + 4096));  // init, and the step
      }
    }
}

// Both passes read every frozen matrix of a block; no op writes it or its gradient.
TEST(Frozen, BackwardPassesThroughItAndWritesNothingOfIt) {
  const Plan plan = nets::build_plan(tiny_spec(kLora), 0, {});
  std::set<std::string> weights;
  for (const Op& op : plan.ops) {
    if (op.weight_gradient) weights.insert(op.path);
    if (op.kind != OpKind::zero)
      for (const View& v : op.writes)
        for (const Param& p : plan.params)
          if (p.frozen && v && v.buffer == plan.params_all.buffer)
            EXPECT_FALSE(v.offset < p.offset + p.count && p.offset < v.offset + v.count) << op.path << p.name;
  }
  for (const std::string& path : weights) EXPECT_NE(path.find("/lora_"), std::string::npos) << path;
  EXPECT_EQ(weights.size(), 2u * 4 * tiny_spec({}).net.blocks());
  for (const Param& p : plan.params) {
    if (!p.frozen || !p.matrix || p.name.find("attn.proj") == std::string::npos) continue;
    int forward = 0, backward = 0;
    for (const Routine& r : plan.routines)
      for (int32_t o = r.first; o < r.first + r.count; ++o)
        for (const View& v : plan.ops[o].reads)
          if (v && v.buffer == plan.params_all.buffer && v.offset <= p.offset &&
              p.offset + p.count <= v.offset + v.count)
            ++(r.pass == Pass::backward ? backward : forward);
    EXPECT_EQ(forward, 1) << p.name;
    EXPECT_EQ(backward, 1) << p.name;
  }
}

TEST(Frozen, PlansOfAllRanksAgree) {
  const std::vector<Words> layouts = {
      {"layout.dp=2", "layout.tp=2"},
      {"layout.dp=2", "layout.tp=2", "policy.zero=3", "policy.sequence_parallel=true"},
      {"layout.tp=2", "layout.pp=2", "policy.schedule=zb-h1", "policy.micro_batch=1"},
      {"layout.cp=2", "layout.pp=2", "policy.zero=2", "policy.micro_batch=1"}};
  for (const Words& words : {kFreeze, kLora})
    for (Words layout : layouts) {
      layout.insert(layout.end(), words.begin(), words.end());
      EXPECT_NO_THROW(nets::check_world(tiny_spec(layout), Workspace())) << layout[0] << layout[1];
    }
}

// Nets without kernels also have adapters.
TEST(Frozen, EveryNetOfSharedLinearsTakesAdapters) {
  for (const char* config : {"gpt3-175b", "llama3-8b", "aurora-small", "unet-tiny"}) {
    const std::string file = source_dir() + "/configs/models/" + config + ".yaml";
    RunSpec spec = load_run_spec(file);
    spec.train.lora_rank = 8;
    spec.train.lora_targets = {"*.attn"};
    const Plan plan = nets::build_plan(spec, 0, {});
    EXPECT_GT(plan.trained_count(), 0) << config;
    EXPECT_LT(plan.trained_count(), plan.parameter_count() / 10) << config;
  }
}

TEST(Frozen, NamesThatAreNoneAreRefused) {
  const auto refused = [](const Words& words, const std::string& key, const std::string& says) {
    try {
      nets::build_plan(tiny_spec(words), 0, {});
      ADD_FAILURE() << words[0];
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  };
  refused({"train.freeze=[block.0]"}, "train.freeze", "no parameter's name");
  refused({"train.freeze=['*']"}, "train.freeze", "nothing to train");
  refused({"train.freeze=[blocks.0.attn.q]"}, "train.freeze", "one matrix");
  refused({"train.lora_rank=4", "train.lora_targets=[blocks.0.attn.q]"}, "train.lora_targets", "one linear");
  refused({"train.lora_rank=4", "train.lora_targets=[patch_embed]"}, "train.lora_targets",
          "can have an adapter");
  refused({"train.lora_rank=4"}, "train.lora_targets", "is empty");
  refused({"train.lora_targets=[blocks]"}, "train.lora_targets", "train.lora_rank is 0");
}

}  // namespace
}  // namespace isobar::plan
