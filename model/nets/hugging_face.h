// GPT-2, Llama, Mixtral and DeepSeekMoE as Hugging Face's transformers has them: names and shapes of the
// weights, and config.json.
//
//   nlohmann::json run = {{"net", net_of_config(read_json("config.json"), "config.json")}};
//   published_form(spec.net, plan.tensors)                    // nets/published.h, for the weights
//   config_of_net(spec.net)                                   // what belongs beside them
//
// transformers turns a head's halves by its rotary positions, as we do, so queries and keys keep their order.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/nets/published.h"

namespace isobar {

/// True for a config.json of transformers, of any architecture.
bool is_hugging_face_config(const nlohmann::json& j);
/// The section `net` of a run. Throws ConfigError naming `file` and a key for an architecture or a setting
/// that gpt and llama do not have.
nlohmann::json net_of_config(const nlohmann::json& config, const std::string& file);
/// A null value for a net that is neither.
nlohmann::json config_of_net(const NetSpec& net);

PublishedForm published_form(const GptSpec& n, const std::vector<Tensor>& own);
PublishedForm published_form(const LlamaSpec& n, const std::vector<Tensor>& own);

}  // namespace isobar
