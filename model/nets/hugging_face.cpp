#include "model/nets/hugging_face.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/json.h"

namespace isobar {
namespace {

using nlohmann::json;

// ---- weights ----

class Form {
 public:
  explicit Form(const std::vector<Tensor>& own) {
    for (const Tensor& t : own) shapes_[t.name] = t.shape;
    form_.program = "transformers";
  }

  void same(const std::string& theirs, const std::string& ours) {
    PublishedTensor t = same_tensor({ours, shapes_.at(ours)});
    t.name = theirs;
    form_.tensors.push_back(std::move(t));
  }
  void pair(const std::string& theirs, const std::string& ours) {
    for (const char* end : {".weight", ".bias"}) same(theirs + end, ours + end);
  }
  // GPT-2's linears (Conv1D): [in, out], where ours are [out, in]; several of ours side by side
  void turned(const std::string& theirs, const std::vector<std::string>& ours) {
    PublishedTensor weight{theirs + ".weight", {shapes_.at(ours[0] + ".weight")[1], 0}, {}};
    PublishedTensor bias{theirs + ".bias", {0}, {}};
    int64_t all = 0;
    for (const std::string& name : ours) all += shapes_.at(name + ".weight")[0];
    for (const std::string& name : ours) {
      const std::vector<int64_t>& shape = shapes_.at(name + ".weight");
      weight.pieces.push_back({.own = name + ".weight",
                               .rows = shape[0],
                               .run = shape[1],
                               .own_first = 0,
                               .own_stride = shape[1],
                               .first = weight.shape[1],
                               .stride = 1,
                               .step = all});
      bias.pieces.push_back({name + ".bias", 1, shape[0], 0, 0, bias.shape[0], 0});
      weight.shape[1] += shape[0], bias.shape[0] += shape[0];
    }
    form_.tensors.push_back(std::move(weight));
    form_.tensors.push_back(std::move(bias));
  }
  // Tensors of theirs that are constants, or a second name of another one
  void ignore(const std::string& theirs) { form_.unread.insert(theirs); }
  // The names without this before them are those of the model without its head, in which the first files are.
  void also_without(const std::string& prefix) {
    for (const PublishedTensor& t : form_.tensors)
      if (t.name.starts_with(prefix)) {
        form_.earlier.push_back(t);
        form_.earlier.back().name = t.name.substr(prefix.size());
      }
    for (const std::string& name : std::set<std::string>(form_.unread))
      if (name.starts_with(prefix)) form_.unread.insert(name.substr(prefix.size()));
  }
  PublishedForm take(const json& config) {
    form_.config = config.dump(2) + "\n";
    return std::move(form_);
  }

 private:
  std::map<std::string, std::vector<int64_t>> shapes_;
  PublishedForm form_;
};

std::string number(int64_t i) {
  return std::to_string(i) + ".";
}

// ---- config.json, read ----

struct Config {
  const json& j;
  const std::string& file;

  bool has(const std::string& key) const { return j.contains(key) && !j[key].is_null(); }
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
                      "take a model without it");
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
  net["rope_theta"] = together ? rope.get("rope_theta", 10000.0) : c.get("rope_theta", 10000.0);
  const std::string type = rope.get<std::string>("rope_type", rope.get<std::string>("type", "default"));
  if (type == "default") return;
  if (type != "llama3") c.refuse(key, "angles are plain, or scaled as Llama 3.1's (llama3)");
  if (rope.get("low_freq_factor", 1.0) != 1 || rope.get("high_freq_factor", 4.0) != 4)
    c.refuse(key, "its bounds are 1 and 4, as in all Llamas");
  net["rope_scaling_factor"] = rope.get("factor", 1.0);
  net["rope_original_length"] = rope.size("original_max_position_embeddings");
}

json llama_of(const Config& c) {
  for (const char* key : {"attention_bias", "mlp_bias"}) c.require(key, false, "linears have no biases");
  c.require<std::string>("hidden_act", "silu", "the MLP is SwiGLU");
  const int64_t width = c.size("hidden_size"), heads = c.size("num_attention_heads");
  if (c.has("head_dim") && c.size("head_dim") * heads != width)
    c.refuse("head_dim", "heads are hidden_size / num_attention_heads wide");
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
  add_angles(c, net);
  return net;
}

// ---- and written ----

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

json config_of(const LlamaSpec& n) {
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
            {"rope_theta", n.rope_theta}};
  if (n.rope_scaling_factor != 1)
    c["rope_scaling"] = {{"rope_type", "llama3"},
                         {"factor", n.rope_scaling_factor},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", n.rope_original_length}};
  return c;
}

}  // namespace

bool is_hugging_face_config(const json& j) {
  return j.is_object() && j.contains("model_type") && j["model_type"].is_string();
}

json net_of_config(const json& j, const std::string& file) {
  const Config c{j, file};
  const std::string type = c.get<std::string>("model_type", "");
  if (type == "gpt2") return gpt_of(c);
  if (type == "llama") return llama_of(c);
  throw ConfigError(file, "model_type", "is " + json_text(type) + ", which is none of our nets",
                    "take a model of type gpt2 or llama");
}

json config_of_net(const NetSpec& net) {
  if (net.kind() == GptSpec::kKind) return config_of(net.gpt());
  if (net.kind() == LlamaSpec::kKind) return config_of(net.llama());
  return nullptr;
}

PublishedForm published_form(const GptSpec& n, const std::vector<Tensor>& own) {
  Form f(own);
  f.same("transformer.wte.weight", "embed.weight");
  f.same("transformer.wpe.weight", "pos_embed");
  for (int64_t i = 0; i < n.depth; ++i) {
    const std::string theirs = "transformer.h." + number(i), ours = "blocks." + number(i);
    f.pair(theirs + "ln_1", ours + "norm1");
    f.turned(theirs + "attn.c_attn", {ours + "attn.q", ours + "attn.k", ours + "attn.v"});
    f.turned(theirs + "attn.c_proj", {ours + "attn.proj"});
    f.pair(theirs + "ln_2", ours + "norm2");
    f.turned(theirs + "mlp.c_fc", {ours + "mlp.fc1"});
    f.turned(theirs + "mlp.c_proj", {ours + "mlp.fc2"});
    f.ignore(theirs + "attn.bias");  // the causal mask
    f.ignore(theirs + "attn.masked_bias");
  }
  f.pair("transformer.ln_f", "norm");
  f.also_without("transformer.");
  n.tie_embeddings ? f.ignore("lm_head.weight") : f.same("lm_head.weight", "head.weight");
  return f.take(config_of(n));
}

PublishedForm published_form(const LlamaSpec& n, const std::vector<Tensor>& own) {
  Form f(own);
  f.same("model.embed_tokens.weight", "embed.weight");
  for (int64_t i = 0; i < n.depth; ++i) {
    const std::string theirs = "model.layers." + number(i), ours = "blocks." + number(i);
    for (const auto& [a, b] : {std::pair{"input_layernorm", "norm1"},
                               {"self_attn.q_proj", "attn.q"},
                               {"self_attn.k_proj", "attn.k"},
                               {"self_attn.v_proj", "attn.v"},
                               {"self_attn.o_proj", "attn.proj"},
                               {"post_attention_layernorm", "norm2"},
                               {"mlp.gate_proj", "mlp.gate"},
                               {"mlp.up_proj", "mlp.up"},
                               {"mlp.down_proj", "mlp.fc2"}})
      f.same(theirs + a + ".weight", ours + b + ".weight");
    f.ignore(theirs + "self_attn.rotary_emb.inv_freq");
  }
  f.same("model.norm.weight", "norm.weight");
  n.tie_embeddings ? f.ignore("lm_head.weight") : f.same("lm_head.weight", "head.weight");
  return f.take(config_of(n));
}

}  // namespace isobar
