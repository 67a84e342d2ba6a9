#include "model/base/net_specs/parts/latent.h"

#include <string>

#include "model/base/spec/spec_check.h"

namespace isobar {

void LatentSpec::add_rows(KeyRows& to) {
  to.insert(
      to.end(),
      {{"net.kv_lora_rank", kv_lora_rank, from_to(0, kMostSize),
        "Multi-head latent attention: numbers of a token that make its keys and values, as DeepSeek's; 0: "
        "the usual attention."},
       {"net.q_lora_rank", q_lora_rank, from_to(0, kMostSize),
        "Numbers of a token that make its queries; 0: queries are made from the token itself."},
       {"net.qk_nope_head_dim", qk_nope_head_dim, from_to(1, kMostSize),
        "Part of a head's queries and keys without rotary positions."},
       {"net.qk_rope_head_dim", qk_rope_head_dim, from_to(2, kMostSize),
        "Part with them; of keys all heads share it."},
       {"net.v_head_dim", v_head_dim, from_to(1, kMostSize), "Width of a head's values."}});
}

void LatentSpec::check(const SpecCheck& check) const {
  const LatentSpec usual;
  for (const auto& [given, key] : {std::pair{q_lora_rank > 0, "net.q_lora_rank"},
                                   {qk_nope_head_dim != usual.qk_nope_head_dim, "net.qk_nope_head_dim"},
                                   {qk_rope_head_dim != usual.qk_rope_head_dim, "net.qk_rope_head_dim"},
                                   {v_head_dim != usual.v_head_dim, "net.v_head_dim"}})
    check.that(any() || !given, key, "is of latent attention, and net.kv_lora_rank is 0",
               "set net.kv_lora_rank, e.g. 512, or leave it out");
  if (!any()) return;
  check.that(qk_rope_head_dim % 2 == 0, "net.qk_rope_head_dim", "is odd, and rotary positions turn pairs",
             "give an even one");
  check.that(v_head_dim <= qk_head_dim(), "net.v_head_dim",
             std::to_string(v_head_dim) + " is wider than a head's queries, " + std::to_string(qk_head_dim()),
             "give at most net.qk_nope_head_dim + net.qk_rope_head_dim");
}

}  // namespace isobar
