// Ranks, coordinates and communicator groups of a layout, with Megatron's `order` semantics: the tokens of
// `order` are mixed-radix digits of the rank, first token fastest. Only axes of size 1 may be left out.
//
//   layout_groups({.dp=2,.tp=2,.cp=2,.order="tp-cp-dp"}, "dp")  ->  {0,4} {1,5} {2,6} {3,7}
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::plan {

struct Coords {
  int dp = 0, tp = 0, cp = 0, pp = 0;
};

/// Throws ConfigError (file = `file`) when `order` is malformed.
std::vector<std::string> order_tokens(const LayoutSpec& l, const std::string& file = "layout");
Coords coords_of(const LayoutSpec& l, int rank);
/// All groups over the axes in `axes` ("dp", "tp-cp"): ranks that agree on every other axis.
std::vector<std::vector<int>> layout_groups(const LayoutSpec& l, const std::string& axes);
/// Splits into n parts of ceil(total / n), the last smaller; uses floor if the last would be empty.
std::vector<int64_t> split_evenly(int64_t total, int64_t n);
std::vector<int> group_of(const LayoutSpec& l, const std::string& axes, int rank);

/// Expert parallelism (Megatron's): ep neighbours among the ranks of cp and dp, in their order, divide the
/// experts. A rank stands at `owner` of its owners, and at `replica` of the ranks with the same experts.
struct ExpertRanks {
  std::vector<int> owners, replicas;
  int64_t owner = 0, replica = 0;
};
ExpertRanks expert_ranks(const LayoutSpec& l, int rank);

}  // namespace isobar::plan
