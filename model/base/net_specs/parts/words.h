// Nets that read tokens of a vocabulary: GPT and Llama.
#pragma once
#include <cstdint>

#include "model/base/net_specs/net_answers.h"
#include "model/base/net_specs/parts/experts.h"
#include "model/base/net_specs/parts/latent.h"
#include "model/base/net_specs/parts/rotary.h"

namespace isobar {

struct WordsSpec
    : NetAnswers {          // kinds that read tokens of a vocabulary: causal attention, loss over the words
  int64_t embed_dim = 384;  // D
  int64_t depth = 12;
  int64_t num_heads = 8;
  int64_t num_kv_heads = 0;  // grouped-query attention; 0 = num_heads
  int64_t mlp_ratio = 4;
  int64_t ffn_dim = 0;  // hidden width of the MLP; 0 = mlp_ratio * embed_dim
  double norm_eps = 1e-6;
  int64_t seq_length = 2048;
  int64_t attended_tokens = 0;  // of packed samples: a token's document; 0 = all (settings_of_others.h)
  int64_t vocab_size = 50257;   // padded to a multiple of 128 * tp, as Megatron does
  bool tie_embeddings = false;  // the head shares the embedding's weight
  double dropout = 0.0;         // of hidden states and attention weights
  int64_t tokens() const { return seq_length; }
  int64_t outputs() const { return 0; }
  int64_t sample_numbers() const { return 2 * seq_length; }  // words and the next ones
  int64_t width() const { return embed_dim; }
  int64_t heads() const { return num_heads; }
  int64_t hidden() const { return ffn_dim ? ffn_dim : mlp_ratio * embed_dim; }
  int64_t kv_heads() const { return num_kv_heads ? num_kv_heads : num_heads; }
  int64_t blocks() const { return depth; }
  void add_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

struct GptSpec : WordsSpec {  // LayerNorm, GELU, biases, learned positions
  static constexpr const char* kKind = "gpt";
  Gelu gelu = Gelu::erf;
  void add_rows(KeyRows& to);
};

struct LlamaSpec : WordsSpec {  // RMSNorm, SwiGLU, rotary positions
  static constexpr const char* kKind = "llama";
  RotarySpec rotary;
  int64_t sliding_window = 0;   // tokens that one attends to at most, itself the last; 0 = all
  int64_t head_dim = 0;         // 0 = embed_dim / num_heads
  bool qk_norm = false;         // RMSNorm of each head of queries and keys
  bool attention_bias = false;  // of the products that give queries, keys and values
  LatentSpec latent;
  ExpertsSpec experts;
  int64_t head_width() const {  // of queries and keys
    return latent.any() ? latent.qk_head_dim() : head_dim ? head_dim : embed_dim / num_heads;
  }
  int64_t window() const { return sliding_window < seq_length ? sliding_window : 0; }  // 0: of no effect
  int64_t rotary_width() const { return latent.any() ? latent.qk_rope_head_dim : head_width(); }
  bool has_experts() const { return experts.num_experts > 0; }
  int64_t expert_hidden() const { return experts.expert_ffn_dim ? experts.expert_ffn_dim : hidden(); }
  int64_t dense_blocks() const { return has_experts() ? experts.first_k_dense_replace : depth; }
  void add_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
