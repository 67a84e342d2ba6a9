#include "model/nets/hugging_face.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/names/hugging_face_config.h"

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
  // Names of gate, up and down
  void swiglu(const std::string& theirs, const char* const (&names)[3], const std::string& ours) {
    const char* const own[] = {"gate.weight", "up.weight", "fc2.weight"};
    for (size_t i = 0; i < 3; ++i) same(theirs + names[i] + ".weight", ours + own[i]);
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

}  // namespace

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

namespace {

constexpr const char* kLlamaNames[] = {"gate_proj", "up_proj", "down_proj"};
constexpr const char* kMixtralNames[] = {"w1", "w3", "w2"};

void add_experts(const LlamaSpec& n, const std::string& theirs, const std::string& ours, Form& f) {
  const bool mixtral = model_type_of(n) == "mixtral";
  const std::string block = theirs + (mixtral ? "block_sparse_moe." : "mlp.");
  f.same(block + "gate.weight", ours + "mlp.router.weight");
  for (int64_t i = 0; i < n.experts.num_experts; ++i)
    f.swiglu(block + "experts." + number(i), mixtral ? kMixtralNames : kLlamaNames,
             ours + "mlp.experts." + number(i));
  if (n.experts.num_shared_experts > 0)
    f.swiglu(block + "shared_experts.", kLlamaNames, ours + "mlp.shared.");
}

}  // namespace

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
                               {"post_attention_layernorm", "norm2"}})
      f.same(theirs + a + ".weight", ours + b + ".weight");
    for (const char* norm : {"q_norm.weight", "k_norm.weight"})
      if (n.qk_norm) f.same(theirs + "self_attn." + norm, ours + "attn." + norm);
    if (i < n.dense_blocks())
      f.swiglu(theirs + "mlp.", kLlamaNames, ours + "mlp.");
    else
      add_experts(n, theirs, ours, f);
    f.ignore(theirs + "self_attn.rotary_emb.inv_freq");
  }
  f.same("model.norm.weight", "norm.weight");
  n.tie_embeddings ? f.ignore("lm_head.weight") : f.same("lm_head.weight", "head.weight");
  return f.take(config_of(n));
}

}  // namespace isobar
