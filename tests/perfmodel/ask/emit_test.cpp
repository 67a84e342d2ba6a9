// Layouts in the words of other software.
#include "perfmodel/ask/choose/emit.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

RunSpec llama(const std::vector<std::string>& set) {
  std::vector<std::string> all = {"train.global_batch=64"};
  all.insert(all.end(), set.begin(), set.end());
  return load_run_spec(source_dir() + "/configs/models/llama3-8b.yaml", all);
}

TEST(Emit, MegatronGetsTheLayoutAndThePolicy) {
  const std::string text =
      emitted(llama({"layout.dp=2", "layout.tp=4", "layout.pp=2", "policy.zero=1", "policy.recompute=full"}),
              "megatron");
  for (const char* one :
       {"--tensor-model-parallel-size 4", "--pipeline-model-parallel-size 2", "--use-distributed-optimizer",
        "--recompute-granularity full", "--swiglu", "--num-query-groups 8", "--global-batch-size 64"})
    EXPECT_NE(text.find(one), std::string::npos) << one << "\n" << text;
}

TEST(Emit, MegatronGetsBlockScalesShardsAndOffloadedLayers) {
  const std::string text = emitted(
      llama({"layout.dp=2", "policy.zero=3", "policy.amp=nvfp4", "policy.offloaded_layers=7.2"}), "megatron");
  for (const char* one : {"--use-megatron-fsdp", "--data-parallel-sharding-strategy optim_grads_params",
                          "--ckpt-format fsdp_dtensor", "--bf16", "--fp4-format e2m1", "--fp4-recipe nvfp4",
                          "--cpu-offloading-num-layers 8"})
    EXPECT_NE(text.find(one), std::string::npos) << one << "\n" << text;
  EXPECT_NE(emitted(llama({"policy.amp=mxfp8"}), "megatron").find("--fp8-recipe mxfp8"), std::string::npos);
  EXPECT_THROW(emitted(llama({"net.attended_tokens=256"}), "megatron"), ConfigError);
}

TEST(Emit, MegatronGetsTheExperts) {
  const std::string text = emitted(
      load_run_spec(source_dir() + "/configs/models/deepseek-moe-16b.yaml", {"layout.dp=8", "layout.ep=8"}),
      "megatron");
  for (const char* one :
       {"--num-experts 64", "--moe-router-topk 6", "--moe-ffn-hidden-size 1408", "--ffn-hidden-size 10944",
        "--moe-shared-expert-intermediate-size 2816", "--expert-model-parallel-size 8",
        "--moe-layer-freq '([0]*1+[1]*27)'", "--moe-router-pre-softmax",
        "--moe-router-load-balancing-type seq_aux_loss", "--moe-aux-loss-coeff 0.001"})
    EXPECT_NE(text.find(one), std::string::npos) << one << "\n" << text;
}

TEST(Emit, MegatronGetsRotaryAnglesAndWindows) {
  const std::string text =
      emitted(llama({"net.rope_scaling_factor=8", "net.sliding_window=4096"}), "megatron");
  for (const char* one :
       {"--rotary-base 500000", "--use-rope-scaling", "--rope-scaling-factor 8", "--window-size 4095,0"})
    EXPECT_NE(text.find(one), std::string::npos) << one << "\n" << text;
  EXPECT_THROW(emitted(llama({"net.rope_scaling_factor=8", "net.rope_scaling=yarn"}), "megatron"),
               ConfigError);
  EXPECT_THROW(emitted(llama({"net.sliding_window=4096"}), "torchtitan"), ConfigError);
  const auto latent = [](const std::vector<std::string>& set) {
    return emitted(load_run_spec(source_dir() + "/configs/models/deepseek-v3.yaml", set), "megatron");
  };
  EXPECT_NE(latent({"net.rope_scaling_factor=1", "net.rope_scaling=llama3", "net.rope_original_length=8192",
                    "net.rope_mscale=0", "net.rope_mscale_all_dim=0"})
                .find("--rope-type rope"),
            std::string::npos);
  const std::string yarn =
      latent({"net.rope_scaling=yarn", "net.rope_scaling_factor=40", "net.rope_original_length=4096",
              "net.rope_mscale=1", "net.rope_mscale_all_dim=1", "net.expert_capacity_factor=1.5"});
  for (const char* one : {"--rope-type yarn", "--rotary-scaling-factor 40", "--mscale 1",
                          "--mscale-all-dim 1", "--moe-expert-capacity-factor 1.5"})
    EXPECT_NE(yarn.find(one), std::string::npos) << one << "\n" << yarn;
}

TEST(Emit, MegatronGetsUnequalStages) {
  EXPECT_NE(emitted(llama({"layout.pp=4", "layout.stages=[7,9,9,7]"}), "megatron")
                .find("--pipeline-model-parallel-layout 'Et*7|t*9|t*9|t*7L'"),
            std::string::npos);
  EXPECT_NE(emitted(llama({"layout.pp=4", "layout.stages=[0,16,16,0]"}), "megatron")
                .find("--pipeline-model-parallel-layout 'E|t*16|t*16|L'"),
            std::string::npos);
  EXPECT_NE(emitted(llama({"layout.pp=3"}), "nemo").find("pipeline_model_parallel_layout='Et*10|t*11|t*11L'"),
            std::string::npos)
      << emitted(llama({"layout.pp=3"}), "nemo");
  EXPECT_EQ(emitted(llama({"layout.pp=2"}), "megatron").find("parallel-layout"), std::string::npos);
}

TEST(Emit, WhatTheSoftwareLacksIsRefusedWithItsNearest) {
  const auto refusal = [](const RunSpec& spec, const std::string& target) {
    try {
      emitted(spec, target);
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(llama({"policy.offloaded_layers=2", "layout.pp=2"}), "megatron").find("layout.pp"),
            std::string::npos);
  EXPECT_NE(refusal(llama({"policy.offloaded_layers=2", "policy.zero=0"}), "torchtitan")
                .find("policy.offloaded_layers"),
            std::string::npos);
  EXPECT_NE(refusal(llama({"policy.zero=1", "layout.dp=2"}), "torchtitan").find("--exclude zero=1"),
            std::string::npos);
  EXPECT_NE(refusal(llama({"layout.pp=2"}), "deepspeed").find("--fix pp=1"), std::string::npos);
}

std::string refused(const std::vector<std::string>& set, const std::string& target) {
  try {
    return "emitted: " + emitted(llama(set), target, "a comment");
  } catch (const ConfigError& e) {
    return e.what();
  }
}

// Megatron's defaults are other ones, and some of its options need others.
TEST(Emit, MegatronGetsWhatItsDefaultsAreNot) {
  const std::string text =
      emitted(llama({"net.rope_theta=10000000", "policy.zero=1", "policy.offload_optimizer=true",
                     "net.dropout=0.1", "policy.bucket_mb=40", "policy.main_grads_dtype=bf16"}),
              "megatron");
  for (const char* one :
       {"--rotary-base 10000000 ", "--norm-epsilon 1e-05 ", "--vocab-size 128256 ", "--hidden-dropout 0.1 ",
        "--attention-dropout 0 ", "--optimizer-cpu-offload ", "--use-precision-aware-optimizer ",
        "--ddp-bucket-size 10000000 ", "--grad-reduce-in-bf16 "})
    EXPECT_NE(text.find(one), std::string::npos) << one << "\n" << text;
  EXPECT_NE(refused({"policy.offload_optimizer=true", "policy.zero=0"}, "megatron").find("policy.zero"),
            std::string::npos);
  EXPECT_NE(refused({"net.rope_theta=10000.5"}, "megatron").find("net.rope_theta"), std::string::npos);
}

// A key of the policy is said, or refused by name.
TEST(Emit, NoKeyOfThePolicyIsDropped) {
  const std::vector<std::string> both = {"layout.dp=2", "policy.zero=3", "policy.offload_optimizer=true",
                                         "policy.offload_parameters=true"};
  struct Case {
    const char* target;
    std::vector<std::string> set;
    const char* part;
  };
  for (const Case& c : std::vector<Case>{
           {"deepspeed", both, "offload_param\""},
           {"torchtitan", both, "--training.enable_cpu_offload"},
           {"megatron", both, "'policy.offload_parameters'"},
           {"nemo", both, "'policy.offload_parameters'"},
           {"torchtitan",
            {"layout.dp=2", "policy.zero=3", "policy.offload_optimizer=true"},
            "'policy.offload_optimizer': alone"},
           {"nemo", {"policy.offload_optimizer=true"}, "optim.config.optimizer_cpu_offload=True"},
           {"torchtitan", {"layout.cp=2", "policy.zero=3", "policy.cp_kind=ring"}, "'policy.cp_kind'"},
           {"torchtitan", {"policy.zero=0", "policy.attention=unfused"}, "'policy.attention'"},
           {"nemo", {"policy.attention=unfused"}, "'policy.attention'"},
           {"deepspeed",
            {"policy.attention=unfused"},
            "the model's code says: recompute full, unfused attention"},
           {"torchtitan",
            {"policy.zero=0", "policy.recompute_method=block", "policy.recompute_num_layers=4"},
            "'policy.recompute_num_layers'"},
           {"torchtitan", {"policy.zero=0", "policy.main_grads_dtype=bf16"}, "'policy.main_grads_dtype'"},
           {"nemo", {"policy.main_grads_dtype=bf16"}, "trainer.plugins.grad_reduce_in_fp32=False"},
           {"deepspeed", {"policy.main_grads_dtype=bf16"}, "\"grad_accum_dtype\": \"bf16\""},
           {"torchtitan", {"policy.zero=0", "policy.bucket_mb=50"}, "'policy.bucket_mb'"},
           {"nemo", {"policy.bucket_mb=50"}, "trainer.strategy.ddp.bucket_size=12500000"},
           {"deepspeed", {"policy.bucket_mb=50"}, "\"reduce_bucket_size\": 12500000"},
           {"torchtitan", {"policy.zero=0", "net.num_kv_heads=4"}, "is none of torchtitan's llama3"},
           {"torchtitan", {"policy.zero=0", "net.dropout=0.1"}, "is none of torchtitan's llama3"}})
    EXPECT_NE(refused(c.set, c.target).find(c.part), std::string::npos) << c.part << "\n"
                                                                        << refused(c.set, c.target);
}

TEST(Emit, DeepSpeedsBatchIsTheProductOfItsParts) {
  const auto j = nlohmann::json::parse(
      emitted(llama({"layout.dp=4", "policy.micro_batch=2", "policy.zero=3"}), "deepspeed"));
  EXPECT_EQ(j.at("zero_optimization").at("stage"), 3);
  EXPECT_EQ(j.at("train_batch_size"), j.at("train_micro_batch_size_per_gpu").get<int64_t>() *
                                          j.at("gradient_accumulation_steps").get<int64_t>() * 4);
}

TEST(Emit, EveryTargetTakesOneLayout) {
  const RunSpec spec = llama({"policy.micro_batch=1", "policy.zero=0"});
  for (const std::string& target : emit_targets()) EXPECT_FALSE(emitted(spec, target).empty()) << target;
}

}  // namespace
}  // namespace isobar::perf
