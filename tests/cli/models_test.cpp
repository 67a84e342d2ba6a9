// Shipped models by name, each with the parameters that its source states, and Hugging Face's config.json.
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

using nlohmann::json;

class Models : public InDirectory {
 protected:
  Answer isobar(const std::string& words, const char* errors = "2>&1") const {
    return shell(at("timeout 100 " + isobar_command() + " " + words + " " + errors));
  }
  static std::string machine() { return " --machine " + shipped("machines/dgx-h100.yaml"); }
};

TEST_F(Models, HaveTheParametersOfTheirSources) {
  const Answer a = isobar("config models --json", "");
  ASSERT_EQ(a.code, 0);
  std::map<std::string, int64_t> have;
  for (const json& row : json::parse(a.out)) have[row["name"]] = row["parameters"];
  // transformers' num_parameters() of meta-llama, Qwen and openai-community/gpt2
  std::map<std::string, int64_t> want = {
      {"llama3-8b", 8'030'261'248},      {"llama3-70b", 70'553'706'496},   {"llama3-405b", 405'853'388'800},
      {"llama3.2-1b", 1'235'814'400},    {"deepseek-v3", 671'026'419'200}, {"qwen3-8b", 8'190'735'360},
      {"qwen3-30b-a3b", 30'532'122'624}, {"qwen2.5-72b", 72'706'203'648},  {"gpt2-124m", 124'439'808}};
  // NERSC's ViT: (C p^2 + 1) D + N D + 12 (12 D^2 + 13 D) + 2 D + D C p^2
  want.insert({{"vit-384", 23'832'960},
               {"vit-1024", 157'926'400},
               {"vit-1536", 350'135'808},
               {"vit-1536-p4", 365'849'088}});
  // microsoft-aurora's checkpoints; its regional rain net's and emulator's sources
  want.insert({{"aurora", 1'256'300'176}, {"aurora-small", 112'797'584}, {"aurora-0.1deg", 1'199'333'764}});
  want.insert({{"regional-gnn", 15'052'033}, {"mlp-emulator", 9'345}, {"mlp-classifier", 269'322}});
  // timm 1.0: vit_large_patch16_224 and vit_huge_patch14_224 have a class token with its position and a head
  // of 1000 classes, ours has pixels
  const auto with_pixels = [](int64_t timm, int64_t width, int64_t patch) {
    return timm - 2 * width - (1000 * width + 1000) + width * 3 * patch * patch;
  };
  want.insert(
      {{"vit-l-16", with_pixels(304'326'632, 1024, 16)}, {"vit-h-14", with_pixels(632'045'800, 1280, 14)}});
  for (const auto& [name, parameters] : want) EXPECT_EQ(have[name], parameters) << name;
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shipped("models")))
    files += entry.path().extension() == ".yaml";
  EXPECT_EQ(have.size(), files);
}

TEST_F(Models, AreFoundByName) {
  const Answer predicted =
      isobar("predict llama3-8b --set policy.zero=3 --set policy.recompute=full" + machine());
  EXPECT_EQ(predicted.code, 0) << predicted.out;
  EXPECT_NE(predicted.out.find("config llama3-8b: "), std::string::npos) << predicted.out;
  EXPECT_EQ(isobar("search llama3-8b --gpus 64" + machine()).code, 0);
  EXPECT_EQ(isobar("plan llama3.2-1b").code, 0);
  EXPECT_EQ(isobar("config show aurora-0.1deg").code, 0);
  EXPECT_EQ(isobar("sweep vit-tiny steps=12 gpus=1,2 --dry-run").code, 0);
  EXPECT_EQ(isobar("train vit-tiny --set train.steps=2").code, 0);
  const Answer none = isobar("predict llama3-80b" + machine());
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.out.find(
                "'llama3-80b': is neither a file here nor the name of a model that comes with Isobar -> the "
                "nearest names: llama3-70b, llama3-8b"),
            std::string::npos)
      << none.out;
}

TEST_F(Models, AFileHereOfThatNameComesFirst) {
  write_atomically(dir_ / "vit-tiny", "inherits: base.yaml\ntrain: {seed: 77}\n");
  const Answer mine = isobar("config show vit-tiny --json", "");
  EXPECT_EQ(json::parse(mine.out)["train"]["seed"], 77) << mine.out;
  std::filesystem::create_directory(dir_ / "gpt-tiny");  // a folder is no configuration
  EXPECT_EQ(isobar("plan gpt-tiny").code, 0);
}

TEST_F(Models, OfHuggingFaceAreRead) {
  const std::string fixtures = source_dir() + "/tests/fixtures/transformers/";
  for (const auto& [folder, kind] : {std::pair{"gpt2", "gpt"}, {"llama", "llama"}}) {
    const Answer shown = isobar("config show " + fixtures + folder + "/config.json --json", "");
    ASSERT_EQ(shown.code, 0) << shown.out;
    EXPECT_EQ(json::parse(shown.out)["net"]["kind"], kind);
    EXPECT_EQ(isobar("predict " + fixtures + folder + "/config.json" + machine()).code, 0) << folder;
  }
  json llama = {
      {"model_type", "llama"},       {"hidden_size", 4096},       {"num_attention_heads", 32},
      {"num_key_value_heads", 8},    {"num_hidden_layers", 32},   {"intermediate_size", 14336},
      {"rms_norm_eps", 1e-5},        {"rope_theta", 500000.0},    {"max_position_embeddings", 8192},
      {"vocab_size", 128256},        {"torch_dtype", "bfloat16"}, {"architectures", {"LlamaForCausalLM"}},
      {"tie_word_embeddings", false}};
  write_atomically(dir_ / "config.json", llama.dump());
  const json net = json::parse(isobar("config show config.json --json", "").out);
  const json ours = json::parse(isobar("config show llama3-8b --json", "2>/dev/null").out);
  EXPECT_EQ(net["net"], ours["net"]);
  EXPECT_EQ(net["policy"]["amp"], "bf16");
  llama["model_type"] = "mistral";  // without the key transformers reads a window of 4,096
  write_atomically(dir_ / "config.json", llama.dump());
  EXPECT_EQ(json::parse(isobar("config show config.json --json", "").out)["net"]["sliding_window"], 4096);
  llama["model_type"] = "gemma2";
  write_atomically(dir_ / "config.json", llama.dump());
  const Answer refused = isobar("predict config.json" + machine());
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.out.find("'model_type': is \"gemma2\""), std::string::npos) << refused.out;
  EXPECT_NE(
      refused.out.find("isobar import config.json --inputs input_ids=4096:int64 labels=4096:int64 -o net"),
      std::string::npos)
      << refused.out;
}

}  // namespace
}  // namespace isobar::cli
