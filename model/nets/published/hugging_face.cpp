// Names and shapes of the weights of GPT-2, Llama, Mixtral and DeepSeekMoE in Hugging Face's transformers;
// config.json: base/names/hugging_face_config.h.
//
//   published_form(spec.net, plan.tensors)                    // nets/published/published.h, for the weights
//
// transformers turns a head's halves by its rotary positions, as we do, so queries and keys keep their order.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/names/hugging_face_config.h"
#include "model/nets/kinds.h"

namespace isobar::nets {
namespace {

using nlohmann::json;

// ---- weights ----

class Form {
 public:
  explicit Form(const std::vector<plan::Tensor>& own) {
    for (const plan::Tensor& t : own) shapes_[t.name] = t.shape;
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
  // Rows of heads, of which the last `rope` are turned with their neighbours there and in halves here; `in`
  // columns
  void turned_heads(const std::string& theirs, const std::string& ours, int64_t heads, int64_t plain,
                    int64_t rope) {
    const std::vector<int64_t>& shape = shapes_.at(ours);
    const int64_t in = shape[1], half = rope / 2;
    PublishedTensor t{theirs, shape, {}};
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t first = h * (plain + rope) * in, pairs = first + plain * in;
      if (plain > 0) t.pieces.push_back({ours, plain, in, first, in, first, in});
      t.pieces.push_back({ours, half, in, pairs, in, pairs, 2 * in});
      t.pieces.push_back({ours, half, in, pairs + half * in, in, pairs + in, 2 * in});
    }
    form_.tensors.push_back(std::move(t));
  }
  // Tensors of theirs that are constants
  void ignore(const std::string& theirs) { form_.unread.insert(theirs); }
  // A second name of theirs, of a tensor that another name of theirs has
  void again(const std::string& theirs, const std::string& ours) {
    ignore(theirs);
    form_.again[theirs] = ours;
  }
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

PublishedForm published_form(const GptSpec& n, const std::vector<plan::Tensor>& own) {
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
  n.tie_embeddings ? f.again("lm_head.weight", "embed.weight") : f.same("lm_head.weight", "head.weight");
  return f.take(config_of(n));
}

namespace {

constexpr const char* kLlamaNames[] = {"gate_proj", "up_proj", "down_proj"};
constexpr const char* kMixtralNames[] = {"w1", "w3", "w2"};

void add_latent(const LlamaSpec& n, const std::string& theirs, const std::string& ours, Form& f) {
  const LatentSpec& l = n.latent;
  const int64_t nope = l.qk_nope_head_dim, rope = l.qk_rope_head_dim;
  const bool ranked = l.q_lora_rank > 0;
  if (ranked) f.same(theirs + "q_a_proj.weight", ours + "q_down.weight");
  if (ranked) f.same(theirs + "q_a_layernorm.weight", ours + "q_norm.weight");
  f.turned_heads(theirs + (ranked ? "q_b_proj.weight" : "q_proj.weight"), ours + "q.weight", n.num_heads,
                 nope, rope);
  f.turned_heads(theirs + "kv_a_proj_with_mqa.weight", ours + "kv_down.weight", 1, l.kv_lora_rank, rope);
  f.same(theirs + "kv_a_layernorm.weight", ours + "kv_norm.weight");
  f.same(theirs + "kv_b_proj.weight", ours + "kv.weight");
}

void add_attention(const LlamaSpec& n, const std::string& theirs, const std::string& ours, Form& f) {
  if (n.latent.any())
    add_latent(n, theirs, ours, f);
  else
    for (const std::string which : {"q", "k", "v"}) {
      f.same(theirs + which + "_proj.weight", ours + which + ".weight");
      if (n.attention_bias) f.same(theirs + which + "_proj.bias", ours + which + ".bias");
    }
  for (const char* norm : {"q_norm.weight", "k_norm.weight"})
    if (n.qk_norm) f.same(theirs + norm, ours + norm);
  f.same(theirs + "o_proj.weight", ours + "proj.weight");
}

void add_experts(const LlamaSpec& n, const std::string& theirs, const std::string& ours, Form& f) {
  const bool mixtral = model_type_of(n) == "mixtral";
  const std::string block = theirs + (mixtral ? "block_sparse_moe." : "mlp.");
  f.same(block + "gate.weight", ours + "mlp.router.weight");
  if (n.experts.has_bias()) f.same(block + "gate.e_score_correction_bias", ours + "mlp.router.bias");
  for (int64_t i = 0; i < n.experts.num_experts; ++i)
    f.swiglu(block + "experts." + number(i), mixtral ? kMixtralNames : kLlamaNames,
             ours + "mlp.experts." + number(i));
  if (n.experts.num_shared_experts > 0)
    f.swiglu(block + "shared_experts.", kLlamaNames, ours + "mlp.shared.");
}

}  // namespace

PublishedForm published_form(const LlamaSpec& n, const std::vector<plan::Tensor>& own) {
  Form f(own);
  f.same("model.embed_tokens.weight", "embed.weight");
  for (int64_t i = 0; i < n.depth; ++i) {
    const std::string theirs = "model.layers." + number(i), ours = "blocks." + number(i);
    f.same(theirs + "input_layernorm.weight", ours + "norm1.weight");
    add_attention(n, theirs + "self_attn.", ours + "attn.", f);
    f.same(theirs + "post_attention_layernorm.weight", ours + "norm2.weight");
    if (i < n.dense_blocks())
      f.swiglu(theirs + "mlp.", kLlamaNames, ours + "mlp.");
    else
      add_experts(n, theirs, ours, f);
    f.ignore(theirs + "self_attn.rotary_emb.inv_freq");
  }
  f.same("model.norm.weight", "norm.weight");
  n.tie_embeddings ? f.again("lm_head.weight", "embed.weight") : f.same("lm_head.weight", "head.weight");
  return f.take(config_of(n));
}

}  // namespace isobar::nets
