// Low-rank adapters of linears (LoRA, Hu 2021): y = x W^T + s (x A^T) B^T, with A [rank, in] from a uniform
// distribution and B [out, rank] zero at first, so that a net begins as its base. Which linears have one, and
// what is frozen, goes by the names of weights.
//
// Tensor parallelism cuts A and B as it cuts W. The one of the two that stays whole is multiplied by a part
// of the linear's input or result, so its gradient is this rank's part of a sum: it is summed over the tensor
// parallel ranks, too, once a step with the gradients of its unit, and no activation is sent.
#pragma once
#include <string>
#include <vector>

#include "model/base/name_pattern.h"
#include "model/base/spec.h"
#include "model/nets/layers.h"

namespace isobar {

struct Adapter {
  Linear a, b;  // x to rank columns, and those to the linear's
  float scale = 1;
};

/// Of a linear whose weights have these names: "blocks.0.attn" of its q, k and v, "head" of head.weight.
std::string stem_of(const std::vector<Param>& weights);

inline constexpr const char *kLoraA = ".lora_A.weight", *kLoraB = ".lora_B.weight";

inline constexpr const char* kVectors = "vectors";  // of train.no_decay

/// Whether a parameter of this name is trained: adapters always are.
inline bool frozen(const TrainSpec& t, const std::string& name) {
  return t.freeze.empty() ? t.lora_rank > 0 : any_matches(t.freeze, name);
}

/// Throws ConfigError for a pattern of train.freeze, lora_targets, no_decay or lr_factors that no parameter's
/// name matches,
/// and where nothing is left to train. `plan`: of any rank.
void check_names(const RunSpec& spec, const Plan& plan);

}  // namespace isobar
