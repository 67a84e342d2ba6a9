// Logs whose numbers contradict each other, or that describe what is not read: each is refused or noted by
// name, and what is read is read in its own units.
#include <gtest/gtest.h>

#include <functional>

#include "bench/import/training_log.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/printed.h"
#include "tests/engine/command.h"

namespace isobar::foreign {
namespace {

class OddLogs : public testing::Test {
 protected:
  LoggedRun read(const std::string& text, const std::string& config = "") {
    write_atomically(folder_ / "some.log", text);
    if (!config.empty()) write_atomically(folder_ / "run.yaml", config);
    return read_training_log({folder_ / "some.log"}, config.empty() ? "" : folder_ / "run.yaml");
  }
  std::string refusal(const std::string& text, const std::string& config = "") {
    try {
      read(text, config);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "nothing was refused";
  }
  static void says(const std::string& text, std::initializer_list<const char*> words) {
    for (const char* word : words)
      EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
  }
  static std::string note_of(const LoggedRun& r) { return r.notes.empty() ? "" : r.notes.back(); }
  Folder folder_;
};

/// Megatron-LM's arguments, with others in place of some, and eight iterations.
std::string megatron(const std::map<std::string, std::string>& others, const std::string& more = "") {
  std::map<std::string, std::string> a = {{"bf16", "True"},
                                          {"context_parallel_size", "1"},
                                          {"data_parallel_size", "4"},
                                          {"ffn_hidden_size", "14336"},
                                          {"global_batch_size", "64"},
                                          {"hidden_size", "4096"},
                                          {"micro_batch_size", "1"},
                                          {"num_attention_heads", "32"},
                                          {"num_experts", "None"},
                                          {"num_layers", "32"},
                                          {"pipeline_model_parallel_size", "2"},
                                          {"seq_length", "4096"},
                                          {"swiglu", "True"},
                                          {"tensor_model_parallel_size", "2"},
                                          {"world_size", "16"}};
  for (const auto& [key, value] : others) a[key] = value;
  std::string text = "------------------------ arguments ------------------------\n";
  for (const auto& [key, value] : a) text += "  " + key + " ........ " + value + "\n";
  text += "-------------------- end of arguments ---------------------\n";
  for (int i = 1; i <= 8; ++i)
    text += printed(
        " iteration %8d/ 100 | consumed samples: %12d | elapsed time per iteration (ms): %.1f | "
        "global batch size: 64 | lm loss: 1.0E+01 | number of skipped iterations: 0 |\n",
        i, 64 * i, i == 1 ? 9000.0 : 2500.0);
  return text + more;
}

TEST_F(OddLogs, MegatronsSizesHaveToMultiply) {
  EXPECT_EQ(read(megatron({})).cells.at("dp"), "4");
  says(refusal(megatron({{"data_parallel_size", "8"}})), {"'world_size'", "16", "32"});
  says(refusal(megatron({{"data_parallel_size", "None"}, {"world_size", "18"}})), {"'gpus'", "18", "4"});
}

TEST_F(OddLogs, MegatronsOtherLayersAreNotReadAsThese) {
  for (const auto& [key, value] : {std::pair{"hybrid_override_pattern", "M-M-M*-"},
                                   {"is_hybrid_model", "True"},
                                   {"mtp_num_layers", "1"},
                                   {"spec", "['megatron.core.models.mamba.mamba_layer_specs', 'x']"},
                                   {"multi_latent_attention", "True"}})
    says(refusal(megatron({{key, value}})), {"'arch'", "--config"});
  says(refusal(megatron({{"recompute_granularity", "selective"}, {"recompute_modules", "['mlp']"}})),
       {"'recompute'", "['mlp']", "--config"});
  const std::map<std::string, std::string> deepseek = {{"num_experts", "64"},
                                                       {"moe_router_topk", "6"},
                                                       {"moe_ffn_hidden_size", "1408"},
                                                       {"multi_latent_attention", "True"},
                                                       {"kv_lora_rank", "512"},
                                                       {"q_lora_rank", "1536"},
                                                       {"qk_head_dim", "128"},
                                                       {"v_head_dim", "128"},
                                                       {"moe_shared_expert_intermediate_size", "2816"},
                                                       {"moe_layer_freq", "[0, 1, 1, 1]"},
                                                       {"num_layers", "4"}};
  const LoggedRun r = read(megatron(deepseek));
  for (const auto& [column, cell] : {std::pair{"arch", "moe-mla"},
                                     {"shared_experts", "2"},
                                     {"dense_layers", "1"},
                                     {"qk_head_dim", "192"},
                                     {"expert_ffn", "1408"}})
    EXPECT_EQ(r.cells.at(column), cell) << column;
  auto other = deepseek;
  other["moe_shared_expert_intermediate_size"] = "2000";
  says(refusal(megatron(other)), {"'arch'", "moe_shared_expert_intermediate_size"});
}

TEST_F(OddLogs, MegatronsRecipesOfFp8AreOfDifferentScales) {
  EXPECT_EQ(read(megatron({{"fp8", "hybrid"}, {"fp8_recipe", "delayed"}})).cells.at("precision"), "fp8");
  EXPECT_EQ(read(megatron({{"fp8", "e4m3"}, {"fp8_recipe", "mxfp8"}})).cells.at("precision"), "mxfp8");
}

TEST_F(OddLogs, MegatronsOlderNamesAreRead) {
  EXPECT_EQ(read(megatron({{"checkpoint_activations", "True"}})).cells.at("recompute"), "full");
  EXPECT_EQ(read(megatron({{"checkpoint_activations", "False"}})).cells.at("recompute"), "none");
  const LoggedRun block = read(
      megatron({{"activations_checkpoint_method", "block"}, {"activations_checkpoint_num_layers", "5"}}));
  EXPECT_EQ(block.cells.at("recompute"), "full");
  EXPECT_EQ(block.cells.at("recomputed_layers"), "5");
  EXPECT_EQ(read(megatron({{"fp8_e4m3", "False"}, {"fp8_hybrid", "True"}})).cells.at("precision"), "fp8");
}

TEST_F(OddLogs, AMegatronThatWasTakenUpALineBackIsASecondRun) {
  const auto line = [](int i) {
    return printed(
        " iteration %8d/ 100 | elapsed time per iteration (ms): 2500.0 | global batch size: 64 |\n", i);
  };
  EXPECT_EQ(read(megatron({}, line(8) + line(9))).steps.size(), 8u) << "a line that was printed twice";
  says(refusal(megatron({}, line(7) + line(8) + line(9))), {"'step'", "from 8 to 7", "several runs"});
}

TEST_F(OddLogs, DeepSpeedsForkOfMegatronHasOtherArguments) {
  const std::map<std::string, std::string> fork = {
      {"deepspeed", "True"}, {"zero_stage", "1.0"}, {"num_experts", "[1]"}, {"num_key_value_heads", "8"}};
  const LoggedRun r = read(megatron(fork));
  EXPECT_EQ(r.cells.at("zero_stage"), "1");
  EXPECT_EQ(r.cells.at("kv_heads"), "8");
  EXPECT_EQ(r.cells.at("framework"), "Megatron-DeepSpeed");
  EXPECT_EQ(read(megatron({})).cells.at("framework"), "Megatron-LM");
  auto ulysses = fork;
  ulysses["ds_sequence_parallel_size"] = "2";
  says(note_of(read(megatron(ulysses))), {"ds_sequence_parallel_size 2"});
  const std::string stage =
      "[2023-08-08 16:28:39,800] [INFO] [config.py:964:print]   zero_optimization_stage ...... 2\n";
  EXPECT_EQ(read(megatron(fork, stage)).cells.at("zero_stage"), "2") << "DeepSpeed's own configuration";
  auto experts = fork;
  experts["num_experts"] = "[8]";
  says(refusal(megatron(experts)), {"'arch'", "num_experts [8]", "--config"});
}

TEST_F(OddLogs, MegatronsNetsOfOtherLayersAreNamed) {
  says(refusal(megatron({{"window_size", "(127, 0)"}})), {"'arch'", "window_size (127, 0)"});
  EXPECT_EQ(read(megatron({{"window_size", "(4095, 0)"}})).cells.at("arch"), "llama") << "the whole sequence";
  says(refusal(megatron({{"decoder_seq_length", "128"}})), {"'arch'", "decoder_seq_length"});
  says(refusal(megatron({}, "building T5 model ...\n")), {"'arch'", "'building T5 model'"});
  EXPECT_EQ(read(megatron({}, "building GPT model ...\n")).cells.at("arch"), "llama");
}

TEST_F(OddLogs, WhatMegatronsColumnsLeaveOutIsNoted) {
  for (const char* name : {"decoder_first_pipeline_num_layers", "optimizer_cpu_offload"})
    says(note_of(read(megatron({{name, "15"}}))), {name, "15 is not read"});
  EXPECT_TRUE(
      read(megatron({{"optimizer_cpu_offload", "False"}, {"padded_vocab_size", "32000"}})).notes.empty());
  says(note_of(read(megatron({}))), {"vocabulary", "50304"});
}

/// GPT-NeoX's arguments, each with where its value is from, and seven iterations.
std::string neox(const std::map<std::string, std::string>& others) {
  std::map<std::string, std::string> a = {{"activation", "gelu"},
                                          {"attention_config", "['flash', 'flash']"},
                                          {"checkpoint_activations", "True"},
                                          {"deepspeed", "True"},
                                          {"hidden_size", "4096"},
                                          {"mlp_type", "regular"},
                                          {"model_parallel_size", "2"},
                                          {"num_attention_heads", "32"},
                                          {"num_layers", "32"},
                                          {"padded_vocab_size", "50432"},
                                          {"pipe_parallel_size", "0"},
                                          {"precision", "bfloat16"},
                                          {"seq_length", "2048"},
                                          {"train_batch_size", "512"},
                                          {"train_micro_batch_size_per_gpu", "4"},
                                          {"world_size", "32"},
                                          {"zero_stage", "1"}};
  for (const auto& [key, value] : others) a[key] = value;
  std::string text = "-------------------- arguments --------------------\n";
  for (const auto& [key, value] : a) {
    std::string line = "  " + key + " " + std::string(32 - key.size(), '.') + " " + value;
    line.resize(std::max<size_t>(64, line.size()), '.');
    text += line + (key == "activation" ? "default\n" : "updated\n");
  }
  text += "---------------- end of arguments ----------------\n";
  for (int i = 1; i <= 7; ++i)
    text += printed(
        " samples/sec: %.3f | iteration %8d/  143000 | elapsed time per iteration (ms): %.1f | lm_loss: "
        "1.1E+01 | number of skipped iterations:   0 |\n",
        64.0, 10 * i, 8000.0);
  return text;
}

TEST_F(OddLogs, GptNeoxsArgumentsAreReadByTheirOwnNames) {
  const LoggedRun r = read(neox({}));
  for (const auto& [column, cell] : {std::pair{"arch", "gpt"},
                                     {"layers", "32"},
                                     {"tp", "2"},
                                     {"pp", "1"},
                                     {"micro_batch", "4"},
                                     {"global_batch", "512"},
                                     {"precision", "bf16"},
                                     {"zero_stage", "1"},
                                     {"recompute", "full"},
                                     {"framework", "GPT-NeoX"},
                                     {"attention_kernel", "flash2"}})
    EXPECT_EQ(r.cells.at(column), cell) << column;
  EXPECT_EQ(r.seconds(), 8);
  says(refusal(neox({{"mlp_type", "llama"}})), {"'arch'", "gated", "--config"});
  says(refusal(neox({{"attention_config", "['mamba', 'global']"}})), {"'arch'", "mamba"});
}

TEST_F(OddLogs, ARunsOnlyTimeIsNoted) {
  const std::string all = megatron({});
  const LoggedRun r = read(all.substr(0, all.find("iteration        2/")));
  ASSERT_EQ(r.steps.size(), 1u);
  says(note_of(r), {"start-up"});
}

std::string titan_step(int i, double tps, double at, const char* word = "") {
  return printed(
      "[titan] 2025-04-10 11:%02d:%02d,000 - root - INFO - %sstep: %2d  loss:  8.0  grad_norm: 2.0  "
      "memory: 47.02GiB(49.50%%)  tps: %.0f\n",
      static_cast<int>(at) / 60, static_cast<int>(at) % 60, word, i, tps);
}

/// torchtitan's head, and lines every tenth step of 8 samples on 8 GPUs, `stretch` times as far apart as tps
/// say.
std::string titan(const std::string& model, const std::string& more, double stretch = 1, int ranks = 8) {
  std::string text = printed("[titan] x - Building 1-D device mesh with ['dp_shard'], [%d]\n", ranks) +
                     model + more +
                     printed(
                         "[titan] x - Trainer is initialized with local batch size %d, global batch "
                         "size 8, gradient accumulation steps 1, sequence length 8192, total steps 90\n",
                         8 / ranks);
  for (int i = 0; i < 6; ++i) text += titan_step(1 + 10 * i, 6500, 60 + 10 * i * stretch * 8192 / 6500);
  return text;
}

const char* const kLlama =
    "[titan] x - Building llama3 8B with TransformerModelArgs(dim=4096, n_layers=32, n_heads=32, "
    "n_kv_heads=8, "
    "vocab_size=128256, multiple_of=1024, ffn_dim_multiplier=1.3, max_seq_len=8192)\n";

TEST_F(OddLogs, TorchtitansArgumentsAreReadAsJsonToo) {
  const LoggedRun r = read(titan(
      "[titan] x - Building llama3 8Bwith {\n  \"dim\": 4096,\n  \"n_layers\": 32,\n  \"n_heads\": 32,\n"
      "  \"n_kv_heads\": 8,\n  \"vocab_size\": 128256,\n  \"multiple_of\": 1024,\n  \"ffn_dim_multiplier\": "
      "1.3\n"
      "}\n",
      ""));
  EXPECT_EQ(r.cells.at("ffn_hidden"), "14336");
  EXPECT_EQ(r.cells.at("kv_heads"), "8");
  EXPECT_EQ(r.cells.at("zero_stage"), "3") << "by the mesh";
  const LoggedRun qwen = read(titan(
      "[titan] x - Building qwen3 0.6B with Qwen3ModelArgs(dim=1024, n_layers=28, n_heads=16, n_kv_heads=8, "
      "vocab_size=151936, head_dim=128, hidden_dim=3072, moe_enabled=False, num_experts=8)\n",
      ""));
  EXPECT_EQ(qwen.cells.at("head_dim"), "128");
  EXPECT_EQ(qwen.cells.at("ffn_hidden"), "3072");
}

TEST_F(OddLogs, TorchtitansFloat8IsOneOfSeveralKinds) {
  for (const char* words :
       {"Float8 tensorwise scaled training active", "Float8 training active with recipe rowwise"})
    EXPECT_EQ(read(titan(kLlama, std::string("[titan] x - ") + words + "\n")).cells.at("precision"), "fp8");
}

TEST_F(OddLogs, TorchtitansMemoryIsAShareOfItsCapacity) {
  const std::string capacity = "[titan] x - CUDA capacity: NVIDIA H100 with ";
  EXPECT_EQ(read(titan(kLlama, capacity + "94.99GiB memory\n")).cells.at("memory_gb"), "47.02");
  says(refusal(titan(kLlama, capacity + "79.11GiB memory\n")), {"'memory'", "47.02", "39.16"});
}

TEST_F(OddLogs, TorchtitansSecondRunOfAnotherLayoutIsRefused) {
  says(refusal(titan(kLlama, "") + titan(kLlama, "", 1, 4)), {"device mesh", "several runs"});
}

TEST_F(OddLogs, TorchtitansRatesContainAllOfTheClock) {
  says(refusal(titan(kLlama, "", 3)), {"step time", "the log's clock"});
  std::string validates;
  for (int i = 0; i < 6; ++i) {
    validates += titan_step(1 + 10 * i, 6500, 100 * i);
    validates += titan_step(1 + 10 * i, 6500, 100 * i + 80, "validate ");
  }
  const std::string head = titan(kLlama, "");
  EXPECT_NEAR(read(head.substr(0, head.find("[titan] 2025")) + validates).seconds(), 8192 / 6500.0, 1e-9);
}

TEST_F(OddLogs, TorchtitansCompilationIsRead) {
  EXPECT_EQ(read(titan(kLlama, "")).cells.at("compiled"), "n");
  EXPECT_EQ(read(titan(kLlama, "[titan] x - Compiling each TransformerBlock with torch.compile\n"))
                .cells.at("compiled"),
            "y");
}

TEST_F(OddLogs, AGatedNetWithoutItsWidthIsNotRead) {
  says(refusal(titan("[titan] x - Building llama3 8B with TransformerModelArgs(dim=4096, n_layers=32, "
                     "n_heads=32, vocab_size=128256)\n",
                     "")),
       {"'ffn_hidden'", "--config"});
}

std::string mlperf_event(double at, const char* key, const std::string& value, const std::string& metadata) {
  return printed(":::MLLOG {\"time_ms\": %.0f, \"key\": \"%s\", \"value\": %s, \"metadata\": {%s}}\n",
                 1.7e12 + 1e3 * at, key, value.c_str(), metadata.c_str());
}

TEST_F(OddLogs, MlperfsTimesAreCheckedByItsClock) {
  const std::string run =
      "net: {kind: llama, embed_dim: 4096, depth: 32, num_heads: 32, seq_length: 8192, vocab_size: 32000}\n"
      "train: {global_batch: 8}\nlayout: {dp: 8}\npolicy: {amp: bf16, micro_batch: 1}\n";
  const std::string batch = mlperf_event(0, "global_batch_size", "8", "");
  const auto tracked = [&](double time) {
    std::string text = batch;
    for (int i = 0; i < 9; ++i)
      text += mlperf_event(12.0 * i, "tracked_stats", printed("{\"train_step_time\": %g}", time),
                           printed("\"step\": %d", i));
    return text;
  };
  EXPECT_EQ(read(tracked(12), run).seconds(), 12);
  says(refusal(tracked(12000), run), {"step time", "the log's clock"});
  says(refusal(batch + mlperf_event(0, "global_batch_size", "16", "") + tracked(12), run),
       {"global_batch_size", "8 and then 16"});
  std::string evaluates = batch;
  for (int i = 0; i < 4; ++i) {
    const std::string from = printed("\"samples_count\": %d", 64 * i),
                      to = printed("\"samples_count\": %d", 64 * i + 64);
    evaluates += mlperf_event(1000 * i, "block_start", "null", from);
    evaluates += mlperf_event(1000 * i + 100, "eval_start", "null", from);
    evaluates += mlperf_event(1000 * i + 300, "eval_stop", "null", from);
    evaluates += mlperf_event(1000 * i + 396, "block_stop", "null", to);
  }
  const LoggedRun r = read(evaluates, run);
  EXPECT_NEAR(r.seconds(), 196 / 8.0, 1e-9) << "without 200 s of evaluation";
  says(note_of(r), {"evaluations"});
}

TEST_F(OddLogs, NemosLinesAreCheckedByTheLaunchersClock) {
  const std::string run =
      "net: {kind: llama, embed_dim: 4096, depth: 32, num_heads: 32, num_kv_heads: 8, ffn_dim: 14336, "
      "seq_length: 8192, vocab_size: 128256}\ntrain: {global_batch: 64}\nlayout: {dp: 8, tp: 2}\n"
      "policy: {amp: bf16, micro_batch: 1}\n";
  const auto lines = [](double seconds, double apart) {
    std::string text;
    for (int i = 0; i < 9; ++i)
      text += printed(
          "2025-01-20 09:%02d:%02d.000 Training epoch 0, iteration %d/99 | lr: 1e-07 | "
          "global_batch_size: 64 | global_step: %d | train_step_timing in s: %.3f\n",
          static_cast<int>(i * apart) / 60, static_cast<int>(i * apart) % 60, i, i, seconds);
    return text;
  };
  EXPECT_TRUE(read(lines(3, 3), run).notes.empty());
  says(note_of(read(lines(3, 33), run)), {"the log's clock"});
  says(refusal(lines(3000, 3), run), {"the log's clock"});
}

std::string nemo1(const std::string& more, int nodes = 4) {
  return "[NeMo I 2024-02-05 18:20:31 x:37] \n    ************** Experiment configuration ***********\n"
         "[NeMo I 2024-02-05 18:20:31 x:38] \n    trainer:\n      devices: 8\n      num_nodes: " +
         std::to_string(nodes) +
         "\n      precision: bf16\n    model:\n      micro_batch_size: 2\n      global_batch_size: 256\n"
         "      tensor_model_parallel_size: 4\n      pipeline_model_parallel_size: 1\n"
         "      encoder_seq_length: 2048\n      num_layers: 32\n      hidden_size: 4096\n"
         "      ffn_hidden_size: 14336\n      num_attention_heads: 32\n" +
         more +
         "    \n[NeMo I 2024-02-05 18:20:44 x:253] ready\n"
         "All distributed processes registered. Starting with 32 processes\n"
         "Epoch 0: :   1%| | 1/9 [00:28<46:39, global_step=0.000, train_step_timing in s=28.30]\n"
         "Epoch 0: :   2%| | 2/9 [00:32<26:40, global_step=1.000, train_step_timing in s=4.30]\n";
}

TEST_F(OddLogs, NemosExpertsAndGatesAreRead) {
  const LoggedRun r =
      read(nemo1("      activation: fast-swiglu\n      num_moe_experts: 8\n      moe_router_topk: 2\n"
                 "      expert_model_parallel_size: 4\n"));
  for (const auto& [column, cell] :
       {std::pair{"arch", "moe"}, {"experts", "8"}, {"top_k", "2"}, {"ep", "4"}, {"expert_ffn", "14336"}})
    EXPECT_EQ(r.cells.at(column), cell) << column;
  EXPECT_EQ(read(nemo1("      activation: geglu\n")).cells.at("arch"), "llama");
  EXPECT_EQ(read(nemo1("      activation: gelu\n")).cells.at("arch"), "gpt");
  says(refusal(nemo1("      activation: gelu\n      num_moe_experts: 8\n")), {"'arch'", "swiglu"});
  says(refusal(nemo1("      activation: gelu\n", 2)), {"'processes'", "32", "16"});
}

}  // namespace
}  // namespace isobar::foreign
