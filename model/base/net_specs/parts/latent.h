// Multi-head latent attention (DeepSeek-V2, 2024): queries, keys and values are made from a few numbers of a
// token each, and one rotary key is shared by all heads.
#pragma once
#include <cstdint>

#include "model/base/net_specs/net_answers.h"

namespace isobar {

struct LatentSpec {
  int64_t kv_lora_rank = 0;  // 0: attention is the usual one
  int64_t q_lora_rank = 0;   // 0: queries are made from the token itself
  int64_t qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128;
  bool any() const { return kv_lora_rank > 0; }
  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  void add_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
};

}  // namespace isobar
