#include "model/base/net_specs/parts/experts.h"

#include <string>

#include "model/base/spec/spec_check.h"
#include "model/base/text/printed.h"

namespace isobar {
namespace {

constexpr int64_t kMostExperts = 4096;
constexpr Allowed kExperts = from_to(0, kMostExperts);

// Mean of the largest of n normal numbers, in their deviations
double largest_of(int64_t n) {
  constexpr double kStep = 0.02, kFar = 12;
  const auto at_most = [n](double x) {
    return std::pow(0.5 * std::erfc(-x / std::sqrt(2.0)), static_cast<double>(n));
  };
  double sum = 0;
  for (double x = kStep / 2; x < kFar; x += kStep) sum += 1 - at_most(x) - at_most(-x);
  return sum * kStep;
}

}  // namespace

// Experts' shares are taken as normal numbers with a fixed sum, of which each rank has as many.
double busiest_share(double imbalance, int64_t experts, int64_t ranks) {
  if (imbalance <= 1 || ranks <= 1 || experts <= 1) return 1;
  const double sums = std::sqrt(static_cast<double>(ranks - 1) / static_cast<double>(experts - 1));
  const double share = 1 + (imbalance - 1) * sums * largest_of(ranks) / largest_of(experts);
  return std::min(share, static_cast<double>(ranks));
}

void ExpertsSpec::add_rows(KeyRows& to) {
  to.insert(
      to.end(),
      {{"net.num_experts", num_experts, kExperts,
        "Experts of a block, in place of its MLP, with a router. 0: MLPs."},
       {"net.num_experts_per_tok", num_experts_per_tok, from_to(1, kMostExperts),
        "Experts that each token goes to: those of its largest router logits."},
       {"net.expert_capacity_factor", expert_capacity_factor, within("[]", 0, 4096, "e.g. 1.25"),
        "Tokens of a sample that an expert takes at most, over an even share; isobar train drops the later "
        "ones. 0: none."},
       {"net.num_shared_experts", num_shared_experts, kExperts,
        "Experts that every token goes to besides, as DeepSeek's: one MLP of their widths together."},
       {"net.expert_ffn_dim", expert_ffn_dim, from_to(0, kMostSize),
        "Hidden width of an expert; 0: that of an MLP (ffn_dim)."},
       {"net.first_k_dense_replace", first_k_dense_replace, from_to(0, kMostSize),
        "First blocks that have an MLP in place of experts, as DeepSeek's."},
       {"net.norm_topk_prob", norm_topk_prob,
        "A token's weights sum to 1: they are a softmax over its experts (Mixtral, Qwen3), not over all."},
       {"net.routed_scaling_factor", routed_scaling_factor, positive("e.g. 2.5"),
        "Factor on the weights of a token's experts."},
       {"net.scoring_func", scoring_func,
        "Scores of experts: a softmax, or a sigmoid of each logit with a bias that takes part in the "
        "choice "
        "alone, "
        "as DeepSeek-V3's."},
       {"net.n_group", n_group, from_to(1, 64), "Groups of experts; with sigmoids."},
       {"net.topk_group", topk_group, from_to(1, 64),
        "Groups that a token's experts are of: those with the largest sums of their two best."},
       {"net.router_bias_rate", router_bias_rate, zero_or_positive("e.g. 0.001"),
        "What a step adds to biases of experts with fewer tokens than the mean, and takes from others."},
       {"net.router_balance_loss", router_balance_loss, zero_or_positive("e.g. 0.01"),
        "Factor of the loss that evens out experts within a sample, as DeepSeek's; summed over blocks."},
       {"net.router_z_loss", router_z_loss, zero_or_positive("e.g. 0.001"),
        "Factor of the mean squared logarithm of the router's sum of exponentials; summed over blocks."},
       {"net.expert_imbalance", expert_imbalance, within("[]", 0, kMostExperts, "e.g. 1.5"),
        "Largest expert's tokens over the mean, as a run's imbalance, for predictions of layout.ep without "
        "--engine. 0: as the machine's fit measured, else even."}});
}

void ExpertsSpec::check(int64_t depth, bool mlps, const SpecCheck& check) const {
  const ExpertsSpec usual;
  for (const auto& [given, key] :
       {std::pair{num_experts_per_tok != usual.num_experts_per_tok, "net.num_experts_per_tok"},
        {expert_capacity_factor > 0, "net.expert_capacity_factor"},
        {num_shared_experts > 0, "net.num_shared_experts"},
        {expert_ffn_dim > 0, "net.expert_ffn_dim"},
        {first_k_dense_replace > 0, "net.first_k_dense_replace"},
        {!norm_topk_prob, "net.norm_topk_prob"},
        {routed_scaling_factor != 1, "net.routed_scaling_factor"},
        {scoring_func != usual.scoring_func, "net.scoring_func"},
        {router_balance_loss > 0, "net.router_balance_loss"},
        {router_z_loss > 0, "net.router_z_loss"},
        {expert_imbalance > 0, "net.expert_imbalance"}})
    check.that(num_experts > 0 || !given, key, "is of experts, and net.num_experts is 0",
               "set net.num_experts, e.g. 8, or leave it out");
  for (const auto& [given, key] : {std::pair{n_group > 1, "net.n_group"},
                                   {topk_group > 1, "net.topk_group"},
                                   {router_bias_rate > 0, "net.router_bias_rate"}})
    check.that(has_bias() || !given, key,
               "is of experts with sigmoid scores, and net.scoring_func is softmax",
               "set net.scoring_func to sigmoid, or leave it out");
  if (num_experts == 0) return;
  check.that(
      num_experts_per_tok <= num_experts, "net.num_experts_per_tok",
      std::to_string(num_experts_per_tok) + " is more than net.num_experts = " + std::to_string(num_experts),
      "give at most as many as there are experts");
  check.that(expert_imbalance == 0 || (expert_imbalance >= 1 && expert_imbalance <= most_uneven()),
             "net.expert_imbalance",
             "is not from 1, even experts, to " + printed("%.4g", most_uneven()) +
                 ", all tokens at net.num_experts_per_tok = " + std::to_string(num_experts_per_tok) + " of " +
                 std::to_string(num_experts),
             "give the imbalance that a run of the net reports, or leave it out");
  check.that(!has_bias() || router_z_loss == 0, "net.router_z_loss",
             "is of a softmax, and scores are sigmoids", "leave it out");
  check.that(n_group == 1 || (num_experts % n_group == 0 && num_experts / n_group > 1), "net.n_group",
             std::to_string(n_group) + " does not divide net.num_experts = " + std::to_string(num_experts) +
                 " into groups of two or more",
             "give a divisor");
  check.that(topk_group <= n_group && num_experts / n_group * topk_group >= num_experts_per_tok,
             "net.topk_group",
             std::to_string(topk_group) + " of net.n_group = " + std::to_string(n_group) +
                 " groups have not the experts of a token",
             "give more, at most all groups");
  check.that(first_k_dense_replace < depth, "net.first_k_dense_replace",
             std::to_string(first_k_dense_replace) +
                 " leaves no block of net.depth = " + std::to_string(depth) + " with experts",
             "give fewer, or set net.num_experts to 0");
  check.that(!mlps || expert_ffn_dim == 0 || first_k_dense_replace > 0, "net.ffn_dim",
             "is of MLPs, and all blocks have experts of net.expert_ffn_dim",
             "leave one of the two out, or set net.first_k_dense_replace");
}

}  // namespace isobar
