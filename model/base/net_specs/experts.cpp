#include "model/base/net_specs/experts.h"

#include <string>

#include "model/base/spec/spec_check.h"

namespace isobar {
namespace {

constexpr int64_t kMostExperts = 4096;
constexpr Allowed kExperts = from_to(0, kMostExperts);

}  // namespace

void ExpertsSpec::add_rows(KeyRows& to) {
  to.insert(
      to.end(),
      {{"net.num_experts", num_experts, kExperts,
        "Experts of a block, in place of its MLP, with a router; no token is dropped. 0: MLPs."},
       {"net.num_experts_per_tok", num_experts_per_tok, from_to(1, kMostExperts),
        "Experts that each token goes to: those of its largest router logits."},
       {"net.num_shared_experts", num_shared_experts, kExperts,
        "Experts that every token goes to besides, as DeepSeek's: one MLP of their widths together."},
       {"net.expert_ffn_dim", expert_ffn_dim, from_to(0, kMostSize),
        "Hidden width of an expert; 0: that of an MLP (ffn_dim)."},
       {"net.first_k_dense_replace", first_k_dense_replace, from_to(0, kMostSize),
        "First blocks that have an MLP in place of experts, as DeepSeek's."},
       {"net.norm_topk_prob", norm_topk_prob,
        "A token's weights are a softmax over its experts (Mixtral, Qwen3), not over all (DeepSeek)."},
       {"net.router_balance_loss", router_balance_loss, zero_or_positive("e.g. 0.01"),
        "Factor of the loss that evens out experts within a sample, as DeepSeek's; summed over blocks."},
       {"net.router_z_loss", router_z_loss, zero_or_positive("e.g. 0.001"),
        "Factor of the mean squared logarithm of the router's sum of exponentials; summed over blocks."}});
}

void ExpertsSpec::check(int64_t depth, bool mlps, const SpecCheck& check) const {
  const ExpertsSpec usual;
  for (const auto& [given, key] :
       {std::pair{num_experts_per_tok != usual.num_experts_per_tok, "net.num_experts_per_tok"},
        {num_shared_experts > 0, "net.num_shared_experts"},
        {expert_ffn_dim > 0, "net.expert_ffn_dim"},
        {first_k_dense_replace > 0, "net.first_k_dense_replace"},
        {!norm_topk_prob, "net.norm_topk_prob"},
        {router_balance_loss > 0, "net.router_balance_loss"},
        {router_z_loss > 0, "net.router_z_loss"}})
    check.that(num_experts > 0 || !given, key, "is of experts, and net.num_experts is 0",
               "set net.num_experts, e.g. 8, or leave it out");
  if (num_experts == 0) return;
  check.that(
      num_experts_per_tok <= num_experts, "net.num_experts_per_tok",
      std::to_string(num_experts_per_tok) + " is more than net.num_experts = " + std::to_string(num_experts),
      "give at most as many as there are experts");
  check.that(first_k_dense_replace < depth, "net.first_k_dense_replace",
             std::to_string(first_k_dense_replace) +
                 " leaves no block of net.depth = " + std::to_string(depth) + " with experts",
             "give fewer, or set net.num_experts to 0");
  check.that(!mlps || expert_ffn_dim == 0 || first_k_dense_replace > 0, "net.ffn_dim",
             "is of MLPs, and all blocks have experts of net.expert_ffn_dim",
             "leave one of the two out, or set net.first_k_dense_replace");
}

}  // namespace isobar
