// The transformers: equal pre-norm blocks (block.h) between two ends, images for the ViT (pixels.h: the NERSC
// 6-hour ERA5 forecast), tokens for gpt and llama (language.h).
#include <algorithm>

#include "model/nets/images/pixels.h"
#include "model/nets/kinds.h"
#include "model/nets/parts.h"
#include "model/nets/transformer/block.h"
#include "model/nets/transformer/language.h"
#include "model/nets/transformer/rotary.h"

namespace isobar::nets {
namespace {

class Vit : public ImageNet {
 public:
  Vit(Emission& e, const Sharding& at, const BlockShape& shape, const VitSpec& n) {
    const ImageShape read = image_read(n, n.patch_size), predicted = image_predicted(n, n.patch_size);
    PatchEmbed* const embed = add_part(std::make_unique<PatchEmbed>(0, e, at, read, shape.width));
    for (int64_t i = 0; i < n.depth; ++i) add_part(block_of(i, e, at, shape));
    PixelHead* const head = add_part(std::make_unique<PixelHead>(here(), e, at, predicted, shape));
    streams_ = chained(here(), at, shape);
    end(e, at, read, predicted, embed, head);
  }
};

}  // namespace

// ---- for searches ----

int64_t idle_parameters(const NetSpec& net) {
  if (net.kind() != LlamaSpec::kKind || !net.llama().has_experts()) return 0;
  const LlamaSpec& n = net.llama();
  return (n.depth - n.dense_blocks()) * (n.experts.num_experts - n.experts.num_experts_per_tok) * 3 *
         n.embed_dim * n.expert_hidden();
}

namespace {

// `dense`: the first blocks, which differ from the others
std::vector<plan::Part> chain(int64_t depth, int64_t dense = 0) {
  std::vector<plan::Part> parts{{"embed", "embed", 0}};
  parts.reserve(static_cast<size_t>(depth) + 2);
  for (int64_t i = 0; i < depth; ++i)
    parts.push_back({"block", block_path(i), static_cast<int32_t>(i < dense ? 1 : dense + 1)});
  parts.push_back({"head", "head", static_cast<int32_t>(parts.size())});
  return parts;
}

template <class Spec>
NetLimits limits_of_blocks(const Spec& n) {
  NetLimits limits{.tp = {{"net.num_heads", n.num_heads}},
                   .kv_heads = n.kv_heads(),
                   .tokens = n.tokens(),
                   .inner_parts = n.depth};
  if (n.kv_heads() != n.num_heads) limits.tp.push_back({"net.num_kv_heads", n.kv_heads()});
  limits.tp.push_back({"the MLP's width", n.hidden()});
  return limits;
}

// The settings that all kinds of blocks share.
template <class Spec>
BlockShape shape_of(const Spec& n) {
  return {.width = n.embed_dim,
          .heads = n.num_heads,
          .kv_heads = n.kv_heads(),
          .head_dim = n.embed_dim / n.num_heads,
          .hidden = n.hidden(),
          .tokens = n.tokens(),
          .eps = n.norm_eps};
}

// The settings of blocks that language models share. The residual stream has the type of activations.
BlockShape shape_of_words(const WordsSpec& n, Emission& e) {
  BlockShape shape = shape_of(n);
  shape.causal = true;
  shape.stream = e.act;
  shape.dropout = e.dropout = n.dropout;
  return shape;
}

Vocabulary vocabulary_of(const WordsSpec& n, bool positions, const Sharding& at) {
  const int64_t unit = 128 * at.tp;  // Megatron pads the vocabulary to a multiple
  return {.words = n.vocab_size,
          .held = (n.vocab_size + unit - 1) / unit * 128,
          .tied = n.tie_embeddings,
          .positions = positions};
}

// Shared experts are one MLP beside the others.
BlockShape with_experts(BlockShape shape, const LlamaSpec& n) {
  const ExpertsSpec& x = n.experts;
  shape.hidden = x.num_shared_experts * n.expert_hidden();
  shape.of_experts = {.experts = x.num_experts,
                      .top = x.num_experts_per_tok,
                      .hidden = n.expert_hidden(),
                      .normalised = x.norm_topk_prob,
                      .balance = x.router_balance_loss,
                      .z = x.router_z_loss,
                      .blocks = n.depth - n.dense_blocks(),
                      .first = 1 + n.dense_blocks(),
                      .factor = static_cast<float>(x.routed_scaling_factor),
                      .sigmoid = x.has_bias(),
                      .groups = x.n_group,
                      .top_groups = x.topk_group,
                      .bias_rate = x.router_bias_rate,
                      .capacity = x.capacity(n.tokens()),
                      .imbalance = x.expert_imbalance};
  return shape;
}

}  // namespace

std::vector<plan::Part> parts_of(const VitSpec& n) {
  return chain(n.depth);
}
std::vector<plan::Part> parts_of(const WordsSpec& n) {
  return chain(n.depth);
}
std::vector<plan::Part> parts_of(const LlamaSpec& n) {
  return chain(n.depth, n.dense_blocks());
}
NetLimits limits_of(const VitSpec& n) {
  return limits_of_blocks(n);
}
NetLimits limits_of(const WordsSpec& n) {
  NetLimits limits = limits_of_blocks(n);
  limits.causal = true;
  return limits;
}
NetLimits limits_of(const LlamaSpec& n) {
  NetLimits limits = limits_of_blocks(n);
  limits.causal = true;
  if (n.window() > 0) limits.no_runs = "a ring passes on all keys, and net.sliding_window sees the last ones";
  if (!n.has_experts()) return limits;
  limits.experts = n.experts.num_experts;
  if (n.experts.capacity(n.tokens()) > 0)
    limits.no_runs = "net.expert_capacity_factor takes a sample's first tokens, which a ring deals out";
  if (n.dense_blocks() == 0) limits.tp.pop_back();  // no MLP
  limits.tp.push_back({"an expert's width", n.expert_hidden()});
  return limits;
}

// Two blocks of each kind
LlamaSpec distinct_parts(LlamaSpec n) {
  constexpr int64_t kMost = 2;
  const int64_t mixed = std::min(kMost, n.depth - n.dense_blocks()),
                dense = std::min(kMost, n.dense_blocks());
  n.depth = dense + mixed;
  if (n.has_experts()) n.experts.first_k_dense_replace = dense;
  return n;
}

// ---- kinds ----

std::unique_ptr<Net> make_net(const VitSpec& n, Emission& e, const Sharding& at) {
  BlockShape shape = shape_of(n);
  shape.activation = activation_of(n.gelu);
  return std::make_unique<Vit>(e, at, shape, n);
}

std::unique_ptr<Net> make_net(const GptSpec& n, Emission& e, const Sharding& at) {
  BlockShape shape = shape_of_words(n, e);
  shape.activation = activation_of(n.gelu);
  return language_model(e, at, shape, n.depth, 0, shape, vocabulary_of(n, true, at));
}

std::unique_ptr<Net> make_net(const LlamaSpec& n, Emission& e, const Sharding& at) {
  BlockShape dense = shape_of_words(n, e);
  dense.rms_norm = dense.swiglu = true;
  dense.head_dim = n.head_width();
  dense.qk_norm = n.qk_norm;
  dense.window = n.window();
  dense.latent = n.latent;
  dense.score_growth = static_cast<float>(score_growth(n));
  dense.rotary = rotary_table(e.b, n.rotary, n.rotary_width(), at.runs());
  dense.biases = false;
  dense.qkv_biases = n.attention_bias;
  const BlockShape shape = n.has_experts() ? with_experts(dense, n) : dense;
  return language_model(e, at, shape, n.depth, n.dense_blocks(), dense, vocabulary_of(n, false, at));
}

}  // namespace isobar::nets
