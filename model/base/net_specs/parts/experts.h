// Mixtures of experts in place of a block's MLP (Shazeer 2017): each token goes to a few of many SwiGLUs.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/base/net_specs/net_answers.h"

namespace isobar {

struct ExpertsSpec {
  int64_t num_experts = 0;  // 0: blocks have MLPs
  int64_t num_experts_per_tok = 2;
  double expert_capacity_factor = 0;  // of an even share, the tokens of a sample that an expert takes; 0: all
  int64_t num_shared_experts = 0;     // that every token goes to, as DeepSeek's
  int64_t expert_ffn_dim = 0;         // hidden width of one; 0 = that of an MLP
  int64_t first_k_dense_replace = 0;  // first blocks, which have MLPs
  bool norm_topk_prob = true;         // weights of a token's experts sum to 1 …
  double routed_scaling_factor = 1;   // … times this
  RouterScores scoring_func = RouterScores::softmax;
  int64_t n_group = 1, topk_group = 1;  // groups of experts, and those of them that a token chooses from
  double router_bias_rate = 0;          // of biases that even out experts
  double router_balance_loss = 0, router_z_loss = 0;
  double expert_imbalance = 0;  // for prices: the largest expert's share over the mean; 0: not said
  /// Tokens of a sample that an expert takes at most; 0: all
  int64_t capacity(int64_t tokens) const {
    return static_cast<int64_t>(
        std::ceil(expert_capacity_factor * static_cast<double>(tokens * num_experts_per_tok) /
                  static_cast<double>(std::max<int64_t>(1, num_experts))));
  }
  double most_uneven() const {  // the largest expert_imbalance
    return static_cast<double>(num_experts) / static_cast<double>(num_experts_per_tok);
  }
  bool has_bias() const { return scoring_func == RouterScores::sigmoid; }
  void add_rows(KeyRows& to);
  /// `depth`: blocks; `mlps`: the width of their MLPs is given.
  void check(int64_t depth, bool mlps, const SpecCheck& check) const;
};

/// Tokens of the busiest of `ranks` that divide the experts, over the mean, if the largest expert has
/// `imbalance` times the mean; 1 where that is 0, not known.
double busiest_share(double imbalance, int64_t experts, int64_t ranks);

}  // namespace isobar
