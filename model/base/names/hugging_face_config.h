// GPT-2, Llama, Qwen2, Qwen3, Mixtral, DeepSeekMoE and DeepSeek-V3 as config.json of Hugging Face's
// transformers describes them.
//
//   nlohmann::json run = {{"net", net_of_config(read_json("config.json"), "config.json")}};
//   config_of(spec.net.llama())                               // what belongs beside weights for transformers
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/base/spec/net_spec.h"

namespace isobar {

/// True for a config.json of transformers, of any architecture.
bool is_hugging_face_config(const nlohmann::json& j);
/// The section `net` of a run. Throws ConfigError naming `file` and a key for an architecture or a setting
/// that gpt and llama do not have.
nlohmann::json net_of_config(const nlohmann::json& config, const std::string& file);
/// A run of it: the net, and policy.amp by the type of its weights.
nlohmann::json run_of_config(const nlohmann::json& config, const std::string& file);
nlohmann::json config_of(const GptSpec& n);
nlohmann::json config_of(const LlamaSpec& n);
/// transformers' model_type. Throws ConfigError naming a key of settings that none of its models has
/// together.
std::string model_type_of(const LlamaSpec& n);

}  // namespace isobar
