#include "model/base/names/hugging_face_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "model/base/error.h"
#include "model/base/text/json.h"

namespace isobar {
namespace {

using nlohmann::json;

// ---- config.json, read ----

struct Config {
  const json& j;
  const std::string& file;
  mutable std::set<std::string> seen = {};  // keys that were read, or say nothing of what a net computes

  bool has(const std::string& key) const {
    seen.insert(key);
    return j.contains(key) && !j[key].is_null();
  }
  template <class T>
  T get(const std::string& key, const T& otherwise) const {
    if (!has(key)) return otherwise;
    const bool fits = std::is_same_v<T, bool>          ? j[key].is_boolean()
                      : std::is_same_v<T, std::string> ? j[key].is_string()
                      : std::is_same_v<T, int64_t>     ? j[key].is_number_integer()
                                                       : j[key].is_number();
    if (!fits) throw ConfigError(file, key, "is of another type", "give the file as transformers writes it");
    return j[key].get<T>();
  }
  int64_t size(const std::string& key) const {
    if (!has(key)) throw ConfigError(file, key, "is missing", "give the whole config.json");
    const auto n = get<int64_t>(key, 0);
    if (n < 1 || n > int64_t{1} << 30)
      throw ConfigError(file, key, "is " + std::to_string(n), "give a size of a model");
    return n;
  }
  // Throws unless the setting has the only value that our nets have.
  template <class T>
  void require(const std::string& key, const T& only, const char* what) const {
    if (get<T>(key, only) != only) refuse(key, what);
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    throw ConfigError(file, key, json_text(j[key]) + " is not in our nets: " + what,
                      "take a model without it, or " + recording());
  }
  // Throws if a key was not read, and its value switches something on.
  void require_all_read(const std::string& inside = "") const {
    std::string unread;
    for (const auto& [key, value] : j.items())
      if (!seen.contains(key) && !is_off(value) && !is_of_no_net(key))
        unread += (unread.empty() ? "" : ", ") + key + " " + json_text(value);
    if (!unread.empty())
      throw ConfigError(file, inside, "says what our nets have not: " + unread,
                        "leave out what changes nothing, or " + recording());
  }
  static bool is_off(const json& value) {
    return value.is_null() || value == json(false) || value == json(0) || value == json("") || value.empty();
  }
  // Names of files, tokens, programs, first values and storage, and how texts are generated
  static bool is_of_no_net(const std::string& key) {
    constexpr std::string_view kKeys =
        " architectures attn_implementation auto_map dtype ep_size id2label initializer_range label2id"
        " max_sequence_length n_ctx output_past pretraining_tp quantization_config return_dict"
        " task_specific_params tokenizer_class torch_dtype transformers_version use_cache "
        " bad_words_ids diversity_penalty do_sample early_stopping length_penalty max_length max_new_tokens"
        " min_length no_repeat_ngram_size num_beam_groups num_beams num_return_sequences"
        " repetition_penalty temperature top_k top_p typical_p ";
    return kKeys.find(" " + key + " ") != std::string_view::npos || key.starts_with("_") ||
           key.starts_with("summary_") || key.starts_with("unsloth_") || key.ends_with("_token_id") ||
           key.ends_with("_token");
  }
  // The command that predicts a net which ours are not
  std::string recording() const {
    const int64_t positions = get("max_position_embeddings", get("n_positions", int64_t{4096}));
    const std::string tokens = std::to_string(std::min<int64_t>(4096, positions)) + ":int64";
    return "price what PyTorch and transformers compute: isobar import " + file +
           " --inputs input_ids=" + tokens + " labels=" + tokens + " -o net.json";
  }
};

json gpt_of(const Config& c) {
  c.require("scale_attn_weights", true, "scores are over the root of the head's width");
  for (const char* key :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"})
    c.require(key, false, "attention is the plain one");
  const std::string activation = c.get<std::string>("activation_function", "gelu_new");
  const bool tanh =
      activation == "gelu_new" || activation == "gelu_pytorch_tanh" || activation == "gelu_fast";
  if (!tanh && activation != "gelu") c.refuse("activation_function", "there is gelu and gelu_new");
  json net = {{"kind", "gpt"},
              {"embed_dim", c.size("n_embd")},
              {"depth", c.size("n_layer")},
              {"num_heads", c.size("n_head")},
              {"seq_length", c.size("n_positions")},
              {"vocab_size", c.size("vocab_size")},
              {"tie_embeddings", c.get("tie_word_embeddings", true)},
              {"norm_eps", c.get("layer_norm_epsilon", 1e-5)},
              {"gelu", tanh ? "tanh" : "erf"},
              {"dropout", c.get("resid_pdrop", 0.1)}};
  for (const char* key : {"embd_pdrop", "attn_pdrop"})
    if (c.get(key, 0.1) != net["dropout"]) c.refuse(key, "dropout is resid_pdrop everywhere");
  if (c.has("n_inner")) net["ffn_dim"] = c.size("n_inner");
  return net;
}

// Angles are in rope_theta and rope_scaling, since version 5 in rope_parameters.
void add_angles(const Config& c, json& net) {
  const bool together = c.has("rope_parameters");
  const json none = json::object(), own = together                ? c.j["rope_parameters"]
                                          : c.has("rope_scaling") ? c.j["rope_scaling"]
                                                                  : none;
  const std::string key = together ? "rope_parameters" : "rope_scaling";
  if (!own.is_object()) c.refuse(key, "it is an object");
  const Config rope{own, c.file};
  net["rope_theta"] = rope.get("rope_theta", c.get("rope_theta", 10000.0));
  const std::string type = rope.get<std::string>("rope_type", rope.get<std::string>("type", "default"));
  for (const Config* said : {&c, &rope})
    said->require("partial_rotary_factor", 1.0, "all of a head is turned");
  rope.has("type");
  if (rope.has("factor") && rope.get("factor", 1.0) == 1) return;
  if (type == "default") {
    rope.has("original_max_position_embeddings");  // stretches nothing
    return rope.require_all_read(key);
  }
  if (type == "yarn") {
    if (rope.has("attention_factor")) c.refuse(key, "the factor of angles follows from the lengths");
    if (!rope.get("truncate", true)) c.refuse(key, "its bounds are whole pairs");
    net["rope_beta_fast"] = rope.get("beta_fast", 32.0);
    net["rope_beta_slow"] = rope.get("beta_slow", 1.0);
    net["rope_mscale"] = rope.get("mscale", 0.0);
    net["rope_mscale_all_dim"] = rope.get("mscale_all_dim", 0.0);
  } else if (type != "llama3") {
    c.refuse(key, "angles are plain, or stretched as Llama 3.1's (llama3) or by YaRN (yarn)");
  } else if (rope.get("low_freq_factor", 1.0) != 1 || rope.get("high_freq_factor", 4.0) != 4) {
    c.refuse(key, "its bounds are 1 and 4, as in all Llamas");
  }
  net["rope_scaling"] = type;
  net["rope_scaling_factor"] = rope.get("factor", 1.0);
  net["rope_original_length"] = type == "yarn" && !rope.has("original_max_position_embeddings")
                                    ? c.size("max_position_embeddings")  // as transformers reads it
                                    : rope.size("original_max_position_embeddings");
  rope.require_all_read(key);
}

json mistral_of(const Config& c, json net) {
  if (!c.j.contains("sliding_window"))
    net["sliding_window"] = 4096;  // as transformers reads it
  else if (c.has("sliding_window"))
    net["sliding_window"] = c.size("sliding_window");
  return net;
}

json mixtral_of(const Config& c, json net) {
  if (c.has("sliding_window")) net["sliding_window"] = c.size("sliding_window");
  c.require("router_jitter_noise", 0.0, "routers have no noise");
  c.has("router_aux_loss_coef");  // counts with output_router_logits alone
  net["num_experts"] = c.size("num_local_experts");
  net["num_experts_per_tok"] = c.size("num_experts_per_tok");
  return net;
}

json deepseek_of(const Config& c, json net) {
  c.require<std::string>("scoring_func", "softmax", "scores are a softmax");
  c.require<std::string>("topk_method", "greedy", "experts are those with the largest scores");
  c.require("routed_scaling_factor", 1.0, "experts' sums are not scaled");
  c.require("moe_layer_freq", int64_t{1}, "all blocks behind the first ones have experts");
  c.require("seq_aux", true, "the balance loss is of each sample");
  net["num_experts"] = c.size("n_routed_experts");
  net["num_experts_per_tok"] = c.size("num_experts_per_tok");
  if (c.has("n_shared_experts")) net["num_shared_experts"] = c.size("n_shared_experts");
  net["expert_ffn_dim"] = c.size("moe_intermediate_size");
  net["first_k_dense_replace"] = c.get("first_k_dense_replace", int64_t{0});
  if (net["first_k_dense_replace"] == 0) net.erase("ffn_dim");  // no block has it
  net["norm_topk_prob"] = c.get("norm_topk_prob", false);
  net["router_balance_loss"] = c.get("aux_loss_alpha", 0.0);
  return net;
}

json qwen_moe_of(const Config& c, json net) {
  c.has("router_aux_loss_coef");  // counts with output_router_logits alone
  c.require("decoder_sparse_step", int64_t{1}, "all blocks behind the first ones have experts");
  net["num_experts"] = c.size(c.has("num_experts") ? "num_experts" : "num_local_experts");
  net["num_experts_per_tok"] = c.size("num_experts_per_tok");
  net["expert_ffn_dim"] = c.size("moe_intermediate_size");
  net["norm_topk_prob"] = c.get("norm_topk_prob", false);
  const json dense = c.has("mlp_only_layers") ? c.j["mlp_only_layers"] : json::array();
  for (size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != i) c.refuse("mlp_only_layers", "blocks without experts are the first ones");
  net["first_k_dense_replace"] = dense.size();
  if (dense.empty()) net.erase("ffn_dim");  // no block has it
  return net;
}

// Qwen2's files do not name its biases, which all have.
json qwen_of(const Config& c, json net) {
  c.has("sliding_window"), c.has("max_window_layers");  // stand there without a window, too
  if (c.get("use_sliding_window", false)) {
    if (c.get("max_window_layers", int64_t{28}) != 0)
      c.refuse("max_window_layers", "all blocks have the same window");
    net["sliding_window"] = c.size("sliding_window");
  }
  net[c.get<std::string>("model_type", "") == "qwen2" ? "attention_bias" : "qk_norm"] = true;
  return net;
}

json deepseek_v3_of(const Config& c, json net) {
  c.require<std::string>("scoring_func", "sigmoid", "scores are sigmoids");
  c.require<std::string>("topk_method", "noaux_tc", "biases even out experts");
  c.require("moe_layer_freq", int64_t{1}, "all blocks behind the first ones have experts");
  c.require("rope_interleave", true, "neighbours are turned together in the files");
  // transformers reads none of these: the width follows, and losses and layers for training are left out.
  for (const char* key : {"qk_head_dim", "aux_loss_alpha", "seq_aux", "num_nextn_predict_layers"}) c.has(key);
  net.erase("num_kv_heads");
  net.erase("head_dim");
  if (c.has("q_lora_rank")) net["q_lora_rank"] = c.size("q_lora_rank");
  for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                          "num_experts_per_tok", "n_group", "topk_group"})
    net[key] = c.size(key);
  net["num_experts"] = c.size("n_routed_experts");
  net["num_shared_experts"] = c.size("n_shared_experts");
  net["expert_ffn_dim"] = c.size("moe_intermediate_size");
  net["first_k_dense_replace"] = c.get("first_k_dense_replace", int64_t{0});
  if (net["first_k_dense_replace"] == 0) net.erase("ffn_dim");  // no block has it
  net["norm_topk_prob"] = c.get("norm_topk_prob", true);
  net["routed_scaling_factor"] = c.get("routed_scaling_factor", 1.0);
  net["scoring_func"] = "sigmoid";
  return net;
}

json llama_of(const Config& c) {
  c.require("mlp_bias", false, "linears of an MLP have no biases");
  if (c.get<std::string>("model_type", "") != "qwen2")
    c.require("attention_bias", false,
              "only qwen2 has biases, of queries, keys and values but not of attention's result");
  c.require<std::string>("hidden_act", "silu", "the MLP is SwiGLU");
  const int64_t width = c.size("hidden_size"), heads = c.size("num_attention_heads");
  json net = {{"kind", "llama"},
              {"embed_dim", width},
              {"depth", c.size("num_hidden_layers")},
              {"num_heads", heads},
              {"num_kv_heads", c.has("num_key_value_heads") ? c.size("num_key_value_heads") : heads},
              {"ffn_dim", c.size("intermediate_size")},
              {"seq_length", c.size("max_position_embeddings")},
              {"vocab_size", c.size("vocab_size")},
              {"tie_embeddings", c.get("tie_word_embeddings", false)},
              {"norm_eps", c.get("rms_norm_eps", 1e-6)}};
  if (c.has("head_dim") && c.size("head_dim") * heads != width) net["head_dim"] = c.size("head_dim");
  add_angles(c, net);
  return net;
}

// Newer files say which blocks have the window.
json with_layer_types(const Config& c, json net) {
  if (!c.has("layer_types")) return net;
  const json& types = c.j["layer_types"];
  const bool windowed = net.contains("sliding_window");
  for (const json& type : types)
    if (type != (windowed ? "sliding_attention" : "full_attention"))
      c.refuse("layer_types",
               windowed ? "all blocks have the window" : "no block has a window, as none is set");
  return net;
}

json llama_like_of(const Config& c, const std::string& type) {
  if (type == "llama") return llama_of(c);
  if (type == "mistral") return mistral_of(c, llama_of(c));
  if (type == "mixtral") return mixtral_of(c, llama_of(c));
  if (type == "deepseek") return deepseek_of(c, llama_of(c));
  if (type == "deepseek_v3") return deepseek_v3_of(c, llama_of(c));
  if (type == "qwen2" || type == "qwen3") return qwen_of(c, llama_of(c));
  if (type == "qwen3_moe") return qwen_moe_of(c, qwen_of(c, llama_of(c)));
  throw ConfigError(
      c.file, "model_type", "is " + json_text(type) + ", which is none of our nets",
      "take a gpt2, llama, mistral, mixtral, deepseek, deepseek_v3, qwen2, qwen3 or qwen3_moe, or " +
          c.recording());
}

}  // namespace

bool is_hugging_face_config(const json& j) {
  return j.is_object() && j.contains("model_type") && j["model_type"].is_string();
}

json net_of_config(const json& j, const std::string& file) {
  const Config c{j, file};
  const std::string type = c.get<std::string>("model_type", "");
  const json net = type == "gpt2" ? gpt_of(c) : with_layer_types(c, llama_like_of(c, type));
  c.require_all_read();
  return net;
}

json run_of_config(const json& j, const std::string& file) {
  json run = {{"net", net_of_config(j, file)}};
  const Config c{j, file};
  const std::string type = c.get<std::string>(c.has("dtype") ? "dtype" : "torch_dtype", "float32");
  if (type == "bfloat16") run["policy"]["amp"] = "bf16";
  if (type == "float16") run["policy"]["amp"] = "fp16";
  return run;
}

json config_of(const GptSpec& n) {
  json c = {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"n_embd", n.embed_dim},
            {"n_layer", n.depth},
            {"n_head", n.num_heads},
            {"n_positions", n.seq_length},
            {"n_ctx", n.seq_length},
            {"vocab_size", n.vocab_size},
            {"tie_word_embeddings", n.tie_embeddings},
            {"layer_norm_epsilon", n.norm_eps},
            {"activation_function", n.gelu == Gelu::tanh ? "gelu_new" : "gelu"},
            {"n_inner", n.hidden()},
            {"embd_pdrop", n.dropout},
            {"resid_pdrop", n.dropout},
            {"attn_pdrop", n.dropout}};
  return c;
}

namespace {

json rope_scaling(const RotarySpec& r) {
  json s = {{"rope_type", name_of(r.scaling)},
            {"factor", r.factor},
            {"original_max_position_embeddings", r.original_length}};
  if (r.scaling == RopeScaling::llama3) {
    s["low_freq_factor"] = 1.0;
    s["high_freq_factor"] = 4.0;
    return s;
  }
  s["beta_fast"] = r.beta_fast;
  s["beta_slow"] = r.beta_slow;
  if (r.mscale > 0) s["mscale"] = r.mscale;
  if (r.mscale_all_dim > 0) s["mscale_all_dim"] = r.mscale_all_dim;
  return s;
}

json llama_config(const LlamaSpec& n) {
  json c = {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"hidden_size", n.embed_dim},
            {"num_hidden_layers", n.depth},
            {"num_attention_heads", n.num_heads},
            {"num_key_value_heads", n.kv_heads()},
            {"intermediate_size", n.hidden()},
            {"max_position_embeddings", n.seq_length},
            {"vocab_size", n.vocab_size},
            {"tie_word_embeddings", n.tie_embeddings},
            {"rms_norm_eps", n.norm_eps},
            {"hidden_act", "silu"},
            {"attention_bias", false},
            {"mlp_bias", false},
            {"rope_theta", n.rotary.theta}};
  if (n.head_dim > 0) c["head_dim"] = n.head_dim;
  if (n.rotary.factor > 1) c["rope_scaling"] = rope_scaling(n.rotary);
  return c;
}

}  // namespace

std::string model_type_of(const LlamaSpec& n) {
  const ExpertsSpec& x = n.experts;
  if (n.latent.any() && x.has_bias() && x.num_shared_experts > 0 && n.window() == 0) return "deepseek_v3";
  const bool latent = n.latent.any();
  if (latent || x.has_bias() || x.routed_scaling_factor != 1)
    throw ConfigError(
        "",
        latent         ? "net.kv_lora_rank"
        : x.has_bias() ? "net.scoring_func"
                       : "net.routed_scaling_factor",
        "is that of DeepSeek-V3, and this net is not like it: latent attention, sigmoid scores, "
        "shared experts",
        "export the weights in our form");
  if (n.attention_bias && (n.qk_norm || n.has_experts()))
    throw ConfigError("", "net.attention_bias",
                      "is set with net.qk_norm or experts, as in no model of transformers that is known here",
                      "export the weights in our form");
  if (n.attention_bias) return "qwen2";
  if (!n.has_experts()) return n.qk_norm ? "qwen3" : n.window() > 0 ? "mistral" : "llama";
  if (n.qk_norm && x.num_shared_experts > 0)
    throw ConfigError("", "net.num_shared_experts", "is set with net.qk_norm, as in no model of transformers",
                      "export the weights in our form");
  if (n.qk_norm) return "qwen3_moe";
  const bool all_alike = x.num_shared_experts == 0 && x.first_k_dense_replace == 0;
  if (all_alike && x.norm_topk_prob) return "mixtral";
  if (n.window() > 0)
    throw ConfigError("", "net.sliding_window", "is set, and DeepSeek's nets have none",
                      "export the weights in our form");
  return "deepseek";
}

namespace {

json window_of(const LlamaSpec& n) {
  return n.window() > 0 ? json(n.window()) : json(nullptr);
}

json mixtral_config(const LlamaSpec& n) {
  return {{"architectures", {"MixtralForCausalLM"}},
          {"intermediate_size", n.expert_hidden()},
          {"num_local_experts", n.experts.num_experts},
          {"sliding_window", window_of(n)}};
}

json qwen_moe_config(const LlamaSpec& n) {
  const ExpertsSpec& x = n.experts;
  json dense = json::array();
  for (int64_t i = 0; i < x.first_k_dense_replace; ++i) dense.push_back(i);
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"num_experts", x.num_experts},
          {"moe_intermediate_size", n.expert_hidden()},
          {"norm_topk_prob", x.norm_topk_prob},
          {"decoder_sparse_step", 1},
          {"mlp_only_layers", dense}};
}

json deepseek_v3_config(const LlamaSpec& n) {
  const ExpertsSpec& x = n.experts;
  const LatentSpec& l = n.latent;
  return {{"architectures", {"DeepseekV3ForCausalLM"}},
          {"q_lora_rank", l.q_lora_rank > 0 ? json(l.q_lora_rank) : json(nullptr)},
          {"kv_lora_rank", l.kv_lora_rank},
          {"qk_nope_head_dim", l.qk_nope_head_dim},
          {"qk_rope_head_dim", l.qk_rope_head_dim},
          {"v_head_dim", l.v_head_dim},
          {"rope_interleave", true},
          {"n_routed_experts", x.num_experts},
          {"n_shared_experts", x.num_shared_experts},
          {"moe_intermediate_size", n.expert_hidden()},
          {"first_k_dense_replace", x.first_k_dense_replace},
          {"n_group", x.n_group},
          {"topk_group", x.topk_group},
          {"norm_topk_prob", x.norm_topk_prob},
          {"routed_scaling_factor", x.routed_scaling_factor},
          {"num_nextn_predict_layers", 0}};
}

json deepseek_config(const LlamaSpec& n) {
  const ExpertsSpec& x = n.experts;
  return {{"architectures", {"DeepseekForCausalLM"}},
          {"n_routed_experts", x.num_experts},
          {"n_shared_experts", x.num_shared_experts > 0 ? json(x.num_shared_experts) : json(nullptr)},
          {"moe_intermediate_size", n.expert_hidden()},
          {"first_k_dense_replace", x.first_k_dense_replace},
          {"moe_layer_freq", 1},
          {"norm_topk_prob", x.norm_topk_prob},
          {"scoring_func", "softmax"},
          {"aux_loss_alpha", x.router_balance_loss},
          {"seq_aux", true}};
}

}  // namespace

json config_of(const LlamaSpec& n) {
  json c = llama_config(n);
  const std::string type = model_type_of(n);
  if (n.has_experts()) c["num_experts_per_tok"] = n.experts.num_experts_per_tok;
  if (type == "mixtral") c.update(mixtral_config(n));
  if (type == "deepseek") c.update(deepseek_config(n));
  if (type == "deepseek_v3") c.update(deepseek_v3_config(n));
  if (type == "mistral") c["architectures"] = {"MistralForCausalLM"}, c["sliding_window"] = window_of(n);
  if (type == "qwen2") c["architectures"] = {"Qwen2ForCausalLM"}, c.erase("attention_bias");
  if (type == "qwen3") c["architectures"] = {"Qwen3ForCausalLM"};
  if (type.starts_with("qwen") && n.window() > 0)
    c.update({{"use_sliding_window", true}, {"sliding_window", n.window()}, {"max_window_layers", 0}});
  if (type == "qwen3_moe") c.update(qwen_moe_config(n));
  c["model_type"] = type;
  return c;
}

}  // namespace isobar
