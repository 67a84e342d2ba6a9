// Models as Hugging Face's transformers saves them (tests/fixtures/make_transformers.py): imported, they have
// its loss and gradients in float64; exported, they are what was read.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/import/import.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/inference/arena.h"
#include "model/inference/one_rank.h"
#include "model/inference/weights/params.h"
#include "model/inference/weights/published_weights.h"
#include "model/nets/build.h"
#include "perfmodel/machine/import.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::foreign {
namespace {

constexpr int64_t kBatch = 4;

class Transformers : public testing::TestWithParam<const char*> {
 protected:
  std::string theirs(const std::string& name) const {
    return source_dir() + "/tests/fixtures/transformers/" + GetParam() + "/" + name;
  }
  std::string config() const {  // as `isobar import config.json -o` writes it
    const std::string path = dir_ / "run.yaml";
    write_atomically(path, json_text(perf::import_model(read_json(theirs("config.json")), "config.json"), 1));
    return path;
  }
  std::string imported(const std::string& name) const {
    const std::string path = dir_ / name;
    EXPECT_EQ(import_weights(theirs(name), config(), path), "");
    return path;
  }
  const Folder dir_;
};

TEST_P(Transformers, LossAndGradientsAreThoseOfThePeer) {
  const json reference = read_json(theirs("reference.json"));
  const RunSpec spec = inference::on_one_rank(load_run_spec(config(), {}), kBatch);
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(omp_get_max_threads()));
  const inference::Arena arena(plan.memory.arena);
  CpuBackend backend(plan, arena.data());
  const auto floats = [&](const plan::View& v) { return reinterpret_cast<float*>(backend.at(v)); };
  backend.load_constants();
  inference::load_weights(plan, inference::SafetensorsReader(imported("model.safetensors")), "",
                          floats(plan.params_all));
  inference::run_in_order(plan, plan::link(plan, plan.init, true), backend);
  backend.on_fetch([&](int32_t, const BatchPlaces& to) {
    for (const plan::BatchTensor& t : plan.batch)
      for (int64_t b = 0; b < kBatch; ++b)
        for (int64_t i = 0; i < t.sample; ++i)
          reinterpret_cast<int32_t*>(to.at(t.name))[b * t.sample + i] =
              reference.at("tokens").at(b).at(i + (t.role == plan::BatchRole::target ? 1 : 0));
  });
  floats(plan.scalars)[plan::kTraining] = 1;
  floats(plan.scalars)[plan::kStep] = 1;
  floats(plan.scalars)[plan::kUnscale] = 1;
  inference::run_in_order(plan, plan::link(plan, plan.train, true), backend);
  const double loss = reference.at("loss");
  EXPECT_NEAR(floats(plan.metrics)[0] / loss, 1, 1e-6);

  const inference::TensorFile gradients = inference::read_safetensors(imported("gradients.safetensors"));
  ASSERT_EQ(gradients.tensors.size(), plan.params.size());
  double worst = 0;
  for (const plan::Param& p : plan.params) {
    if (p.frozen) continue;  // biases of experts, which no gradient trains
    // In exact arithmetic the gradient of keys' biases is zero, unless they are turned with the keys.
    const bool zero = spec.net.kind() == GptSpec::kKind && p.name.find("attn.k.bias") != std::string::npos;
    std::string scale = p.name;
    if (zero) scale.replace(scale.find(".k."), 3, ".q.");
    double error = 0, size = 0;
    for (int64_t i = 0; i < p.count; ++i) {
      const double ours = floats(plan.grads_all)[p.offset + i];
      error += std::pow(ours - gradients.tensors.at(p.name).values[i], 2);
      size += std::pow(gradients.tensors.at(scale).values[i], 2);
    }
    EXPECT_LT(std::sqrt(error / size), 1e-5) << p.name;
    worst = std::max(worst, std::sqrt(error / size));
  }
  std::printf("%s: error of the loss %.1e, of gradients %.1e\n", GetParam(),
              floats(plan.metrics)[0] / loss - 1, worst);
}

TEST_P(Transformers, WhatIsExportedIsWhatWasRead) {
  const RunSpec spec = load_run_spec(config(), {});
  const std::string back = dir_ / "back.safetensors";
  EXPECT_EQ(
      inference::write_published(spec, inference::TrainedWeights(imported("model.safetensors"), 1), back), 0);
  const inference::TensorFile before = inference::read_safetensors(theirs("model.safetensors")),
                              after = inference::read_safetensors(back);
  ASSERT_EQ(before.tensors.size(), after.tensors.size());
  for (const auto& [name, t] : before.tensors) {
    ASSERT_TRUE(after.tensors.contains(name)) << name;
    EXPECT_EQ(t.shape, after.tensors.at(name).shape) << name;
    EXPECT_EQ(t.values, after.tensors.at(name).values) << name;
  }
  // transformers reads the net from what is beside the weights: the same net again
  const json net = perf::import_model(read_json(dir_ / "config.json"), "config.json");
  EXPECT_EQ(run_spec_from_json(net, "ours").net.words()->hidden(), spec.net.words()->hidden());
  json first = perf::import_model(read_json(theirs("config.json")), "config.json");
  json second = net;
  for (json* j : {&first, &second}) (*j)["net"].erase("ffn_dim");  // 0 there: four times the width
  EXPECT_EQ(first, second);
}

// As transformers writes large models: several files and an index, weights in bf16
TEST_P(Transformers, SeveralFilesHoldTheSame) {
  const RunSpec spec = load_run_spec(config(), {});
  const std::string whole = imported("model.safetensors"), out = dir_ / "theirs.safetensors";
  write_atomically(out, "of an export before");
  EXPECT_EQ(inference::write_published(spec, inference::TrainedWeights(whole, 1), out, {.most_bytes = 9000}),
            0);
  EXPECT_FALSE(std::filesystem::exists(out)) << "transformers would read it";
  const std::string index = dir_ / "theirs.safetensors.index.json";
  const json map = read_json(index).at("weight_map");
  std::set<std::string> files;
  int64_t bytes = 0;
  for (const auto& [name, file] : map.items()) files.insert(file.get<std::string>());
  for (const std::string& file : files) {
    const inference::SafetensorsReader part(dir_ / file);
    int64_t here = 0;
    for (const auto& [name, t] : part.tensors()) here += 4 * t.count;
    EXPECT_TRUE(here <= 9000 || part.tensors().size() == 1) << file;
    bytes += here;
  }
  EXPECT_GT(files.size(), 2u);
  EXPECT_EQ(read_json(index).at("metadata").at("total_size"), bytes);
  EXPECT_EQ(import_weights(index, config(), dir_ / "again"), "");
  EXPECT_EQ(read_file(dir_ / "again"), read_file(whole)) << "to the bit";

  std::filesystem::remove(dir_ / *files.begin());
  EXPECT_THROW(import_weights(index, config(), dir_ / "less"), ConfigError);
  json wrong = read_json(index);
  wrong["weight_map"]["lm_head.more"] = *files.rbegin();
  write_atomically(index, wrong.dump());
  EXPECT_THROW(import_weights(index, config(), dir_ / "more"), ConfigError);
  wrong["weight_map"] = {{"lm_head.weight", "../model.safetensors"}};
  write_atomically(index, wrong.dump());
  EXPECT_THROW(import_weights(index, config(), dir_ / "away"), ConfigError);
}

TEST_P(Transformers, WeightsInBf16AreRoundedOnce) {
  const RunSpec spec = load_run_spec(config(), {});
  const std::string out = dir_ / "theirs.safetensors";
  inference::write_published(spec, inference::TrainedWeights(imported("model.safetensors"), 1), out,
                             {.type = DType::bf16});
  const inference::TensorFile before = inference::read_safetensors(theirs("model.safetensors")),
                              after = inference::read_safetensors(out);
  ASSERT_EQ(before.tensors.size(), after.tensors.size());
  const inference::SafetensorsReader types(out);
  for (const auto& [name, t] : before.tensors) {
    EXPECT_EQ(types.tensors().at(name).type->name, "BF16");
    for (size_t i = 0; i < t.values.size(); ++i)
      ASSERT_EQ(after.tensors.at(name).values[i],
                static_cast<double>(to_float(to_bf16(static_cast<float>(t.values[i])))))
          << name;
  }
  EXPECT_EQ(read_json(dir_ / "config.json").at("dtype"), "bfloat16");
}

// The first files of GPT-2 lack the prefix of the model with a head, and have the causal masks; tied models
// may have their head as well.
TEST(TransformersFiles, OtherNamesOfTheSameTensorsAreTaken) {
  const Folder dir;
  const std::string from = source_dir() + "/tests/fixtures/transformers/gpt2/";
  write_atomically(dir / "run.yaml",
                   json_text(perf::import_model(read_json(from + "config.json"), "config.json"), 1));
  const inference::TensorFile now = inference::read_safetensors(from + "model.safetensors");
  std::vector<plan::Tensor> tensors;
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, t] : now.tensors) {
    tensors.push_back({name.substr(name.find('.') + 1), t.shape});
    values[tensors.back().name] = {t.values.begin(), t.values.end()};
  }
  tensors.push_back({"h.0.attn.bias", {1, 1, 12, 12}});
  values["h.0.attn.bias"].assign(144, 1);
  tensors.push_back({"lm_head.weight", {50, 16}});
  values["lm_head.weight"] = values.at("wte.weight");
  const auto write = [&](const std::string& path) {
    inference::create_safetensors(path, tensors, {});
    const inference::SafetensorsWriter out(path, tensors, {});
    for (const plan::Tensor& t : tensors)
      out.write(t.name, 0, static_cast<int64_t>(values.at(t.name).size()), values.at(t.name).data());
    return path;
  };
  import_weights(write(dir / "first.safetensors"), dir / "run.yaml", dir / "a");
  import_weights(from + "model.safetensors", dir / "run.yaml", dir / "b");
  EXPECT_EQ(read_file(dir / "a"), read_file(dir / "b"));
  values["lm_head.weight"][37] += 1;  // of a net that is not tied
  try {
    import_weights(write(dir / "untied.safetensors"), dir / "run.yaml", dir / "c");
    FAIL() << "a head of its own is dropped";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("'lm_head.weight': differs from wte.weight"), std::string::npos)
        << e.what();
  }
  values["lm_head.weight"][37] -= 1;
  tensors.push_back({"h.0.attn.gate", {16}});
  values["h.0.attn.gate"].assign(16, 1);
  try {
    import_weights(write(dir / "other.safetensors"), dir / "run.yaml", dir / "c");
    FAIL() << "a tensor that the net lacks is dropped";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("h.0.attn.gate"), std::string::npos) << e.what();
  }
}

// DistributedDataParallel, torch.compile and FSDP put names of their own into those of the weights.
TEST(TransformersFiles, NamesOfWrappersAreTakenAway) {
  const Folder dir;
  const std::string from = source_dir() + "/tests/fixtures/transformers/gpt2/";
  write_atomically(dir / "run.yaml",
                   json_text(perf::import_model(read_json(from + "config.json"), "config.json"), 1));
  const inference::TensorFile now = inference::read_safetensors(from + "model.safetensors");
  const auto written = [&](const std::string& before, const std::string& inside) {
    std::vector<plan::Tensor> tensors;
    std::map<std::string, std::string> old;
    for (const auto& [name, t] : now.tensors) {
      std::string wrapped = before + name;
      if (const size_t at = wrapped.find(".h.0."); at != std::string::npos) wrapped.insert(at + 5, inside);
      tensors.push_back({wrapped, t.shape});
      old[wrapped] = name;
    }
    const std::string path = dir / "wrapped.safetensors";
    inference::create_safetensors(path, tensors, {});
    const inference::SafetensorsWriter out(path, tensors, {});
    for (const plan::Tensor& t : tensors) {
      const std::vector<double>& v = now.tensors.at(old.at(t.name)).values;
      const std::vector<float> values(v.begin(), v.end());
      out.write(t.name, 0, static_cast<int64_t>(values.size()), values.data());
    }
    return path;
  };
  import_weights(from + "model.safetensors", dir / "run.yaml", dir / "plain");
  for (const auto& [before, inside] :
       std::vector<std::pair<std::string, std::string>>{{"module.", ""},
                                                        {"_orig_mod.", ""},
                                                        {"module._orig_mod.", "_checkpoint_wrapped_module."},
                                                        {"_orig_mod.module.", "_orig_mod."},
                                                        {"_fsdp_wrapped_module.", "_fsdp_wrapped_module."}}) {
    import_weights(written(before, inside), dir / "run.yaml", dir / "w");
    EXPECT_EQ(read_file(dir / "w"), read_file(dir / "plain")) << before << inside;
  }
}

TEST(TransformersFiles, WhatOurNetsDoNotHaveIsRefusedByName) {
  const std::string from = source_dir() + "/tests/fixtures/transformers/";
  for (const auto& [model, key, value] : std::vector<std::tuple<std::string, std::string, json>>{
           {"gpt2", "activation_function", "relu"},
           {"gpt2", "scale_attn_by_inverse_layer_idx", true},
           {"gpt2", "n_embd", "wide"},
           {"gpt2", "model_type", "bloom"},
           {"llama", "hidden_act", "gelu"},
           {"llama", "attention_bias", true},
           {"llama", "mlp_bias", true},
           {"qwen2", "max_window_layers", 1},
           {"qwen3", "attention_bias", true},
           {"deepseek_v3", "topk_method", "greedy"},
           {"deepseek_v3", "rope_interleave", false},
           {"qwen3_moe", "layer_types", {"sliding_attention"}},
           {"qwen3_moe", "decoder_sparse_step", 2},
           {"qwen3_moe", "mlp_only_layers", {1}},
           {"llama", "rope_parameters", {{"rope_type", "dynamic"}, {"factor", 4}}},
           {"mixtral", "sliding_window", "wide"},
           {"mixtral", "num_local_experts", nullptr},
           {"deepseek", "scoring_func", "sigmoid"},
           {"deepseek", "moe_layer_freq", 2},
           {"llama", "attention_dropout", 0.1},
           {"llama", "partial_rotary_factor", 0.5},
           {"llama", "logits_scaling", 8},
           {"llama", "sliding_window", 4096},
           {"llama", "rope_parameters", {{"rope_type", "default"}, {"mrope_section", {1, 2}}}},
           {"gpt2", "attn_pdrop", 0.1},
           {"gpt2", "embd_pdrop", 0.2},
           {"mixtral", "output_router_logits", true},
           {"qwen3_moe", "output_router_logits", true},
           {"llama", "vocab_size", nullptr},
           {"llama", "vocab_size", -5}}) {
    json config = read_json(from + model + "/config.json");
    config[key] = value;
    try {
      perf::import_model(config, "some/config.json");
      FAIL() << key;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("some/config.json"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
    }
  }
}

TEST(TransformersFiles, WhatSaysNothingOfTheNetIsPassedOver) {
  const std::string from = source_dir() + "/tests/fixtures/transformers/";
  for (const char* model : {"llama", "qwen2", "deepseek_v3", "mixtral"}) {
    json config = read_json(from + model + "/config.json");
    if (std::string(model) == "qwen2") config["use_sliding_window"] = false, config.erase("layer_types");
    const json net = perf::import_model(config, "config.json");
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, json>>{{"_name_or_path", "a/b"},
                                                   {"quantization_config", {{"quant_method", "fp8"}}},
                                                   {"unsloth_version", "2025.1"},
                                                   {"attention_dropout", 0.0},
                                                   {"max_length", 4096},
                                                   {"top_p", 0.6},
                                                   {"bos_token", "<s>"},
                                                   {"partial_rotary_factor", 1.0},
                                                   {"logit_softcapping", nullptr},
                                                   {"no_rope_layers", json::array()},
                                                   {"auto_map", {{"AutoConfig", "c.C"}}},
                                                   {"sep_token_id", 3}})
      config[key] = value;
    if (std::string(model) == "qwen2") config["sliding_window"] = 131072, config["max_window_layers"] = 70;
    if (std::string(model) == "deepseek_v3") config["num_nextn_predict_layers"] = 1;
    EXPECT_EQ(perf::import_model(config, "config.json"), net) << model;
  }
}

TEST(TransformersFiles, AnglesAreThoseThatTransformersReads) {
  json config = read_json(source_dir() + "/tests/fixtures/transformers/llama/config.json");
  config["rope_theta"] = 5e5;  // where rope_parameters does not say it
  config["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 4}};
  const json net = perf::import_model(config, "config.json")["net"];
  EXPECT_EQ(net["rope_theta"], 5e5);
  EXPECT_EQ(net["rope_original_length"], config["max_position_embeddings"]);
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, Transformers,
                         testing::Values("gpt2", "llama", "mixtral", "deepseek", "qwen2", "qwen3",
                                         "qwen3_moe", "deepseek_v3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isobar::foreign
