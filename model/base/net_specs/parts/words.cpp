#include "model/base/net_specs/parts/words.h"

#include "model/base/net_specs/parts/blocks.h"

namespace isobar {
namespace {

constexpr int64_t kMost = 1 << 24;  // tokens, words, hidden width

}  // namespace

void WordsSpec::add_rows(KeyRows& to) {
  to.insert(
      to.end(),
      {{"net.embed_dim", embed_dim, kNetSize, "Width of a token."},
       {"net.depth", depth, kNetSize, "Transformer blocks."},
       {"net.num_heads", num_heads, kNetSize, "Attention heads."},
       {"net.num_kv_heads", num_kv_heads, from_to(0, kMost),
        "Heads of keys and values (grouped-query attention); 0: num_heads."},
       {"net.mlp_ratio", mlp_ratio, kNetSize, "Hidden width of a block's MLP over embed_dim."},
       {"net.ffn_dim", ffn_dim, from_to(0, kMost),
        "Hidden width of a block's MLP; 0: mlp_ratio times embed_dim."},
       {"net.norm_eps", norm_eps, positive("use 1e-6"), "Added to the variance in norms."},
       {"net.seq_length", seq_length, from_to(1, kMost), "Tokens of a sample."},
       {"net.attended_tokens", attended_tokens, from_to(0, kMost),
        "Tokens that attend to each other where samples are packed, for predictions with --engine; 0: all."},
       {"net.vocab_size", vocab_size, from_to(1, kMost),
        "Words; tables are padded to a multiple of 128 times layout.tp."},
       {"net.tie_embeddings", tie_embeddings, "The head shares the embedding's weight."},
       {"net.dropout", dropout, within("[)", 0, 1, "e.g. 0.1"),
        "Dropout of the embedding, of attention's and the MLP's results and, if policy.attention is "
        "unfused, of "
        "attention weights; drawn independently of the layout."}});
}

void GptSpec::add_rows(KeyRows& to) {
  WordsSpec::add_rows(to);
  to.emplace_back("net.gelu", gelu, "Exact GELU, or its tanh approximation.");
}

void LlamaSpec::add_rows(KeyRows& to) {
  WordsSpec::add_rows(to);
  rotary.add_rows(to);
  to.insert(to.end(),
            {{"net.sliding_window", sliding_window, from_to(0, kMost),
              "Tokens that one attends to at most, itself the last, as Mistral's; 0: all before it."},
             {"net.head_dim", head_dim, from_to(0, kMost), "Width of a head; 0: embed_dim / num_heads."},
             {"net.qk_norm", qk_norm, "RMSNorm of each head of queries and keys, as Qwen3's."},
             {"net.attention_bias", attention_bias,
              "Biases of the products that give queries, keys and values, as Qwen2's; no others."}});
  latent.add_rows(to);
  experts.add_rows(to);
}

namespace {

void check_packing(const WordsSpec& n, const SpecCheck& check) {
  check.that(n.attended_tokens <= n.seq_length, "net.attended_tokens", "is above net.seq_length",
             "give the mean length of a document, or 0");
}

}  // namespace

void WordsSpec::check(const SpecCheck& check) const {
  check_packing(*this, check);
  check.divides(num_heads, embed_dim, "net.num_heads", "net.embed_dim");
  check.divides(kv_heads(), num_heads, "net.num_kv_heads", "net.num_heads");
}

void LlamaSpec::check(const SpecCheck& check) const {
  check_packing(*this, check);
  check.that(attended_tokens == 0 || window() == 0, "net.attended_tokens",
             "and net.sliding_window both limit what a token attends to", "leave one of the two out");
  for (const auto& [given, key] : {std::pair{kv_heads() != num_heads, "net.num_kv_heads"},
                                   {head_dim > 0, "net.head_dim"},
                                   {qk_norm, "net.qk_norm"},
                                   {attention_bias, "net.attention_bias"}})
    check.that(!latent.any() || !given, key, "is not of latent attention, and net.kv_lora_rank is set",
               "leave one of the two out");
  if (head_dim == 0 && !latent.any()) check.divides(num_heads, embed_dim, "net.num_heads", "net.embed_dim");
  check.divides(kv_heads(), num_heads, "net.num_kv_heads", "net.num_heads");
  check.that(rotary_width() % 2 == 0 || latent.any(), head_dim > 0 ? "net.head_dim" : "net.num_heads",
             "gives heads of an odd width, and rotary positions turn pairs",
             head_dim > 0 ? "give an even one" : "make net.embed_dim / net.num_heads even");
  rotary.check(check);
  latent.check(check);
  experts.check(depth, ffn_dim > 0, check);
}

RoughSize WordsSpec::rough_size(bool unfused) const {
  return rough_size_of_blocks(*this, 2 * static_cast<double>(vocab_size), unfused);
}

RoughSize LlamaSpec::rough_size(bool unfused) const {
  RoughSize all = WordsSpec::rough_size(unfused);
  if (!has_experts()) return all;
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const double blocks = real(depth - dense_blocks()), width = real(embed_dim), hidden = real(expert_hidden());
  const double shared = real(experts.num_shared_experts), chosen = real(experts.num_experts_per_tok);
  all.weights += blocks * width * real(experts.num_experts) +
                 3 * blocks * width * hidden * (real(experts.num_experts) + shared);
  all.sample += blocks * real(tokens()) *
                (2 * chosen * width + 3 * hidden * (chosen + shared) + 2 * real(experts.num_experts));
  return all;
}

}  // namespace isobar
