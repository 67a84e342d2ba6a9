// Low-rank adapters of linears (LoRA, Hu 2021): y = x W^T + s (x A^T) B^T, with A [rank, in] uniform and B
// [out, rank] zero at first, so that a net begins as its base. Weights' names decide which linears have one
// and what is frozen.
//
// Tensor parallelism cuts A and B as it cuts W. The one that stays whole is multiplied by a part of the
// linear's input or result, so its gradient is a partial sum: it is also summed over the tensor parallel
// ranks, once a step with its unit, and no activation is sent.
#pragma once
#include <string>
#include <vector>

#include "model/base/names/name_pattern.h"
#include "model/base/spec/spec.h"
#include "model/nets/layers.h"

namespace isobar::nets {

struct Adapter {
  Linear a, b;  // in -> rank, rank -> out
  float scale = 1;
};

/// Name of the linear with these weights: "blocks.0.attn" of its q, k and v, "head" of head.weight.
std::string stem_of(const std::vector<plan::Param>& weights);

inline constexpr const char *kLoraA = ".lora_A.weight", *kLoraB = ".lora_B.weight";

inline constexpr const char* kVectors = "vectors";  // in train.no_decay: all parameters that are vectors

/// True if a parameter of this name is frozen; adapters never are.
inline bool frozen(const TrainSpec& t, const std::string& name) {
  return t.freeze.empty() ? t.lora_rank > 0 : any_matches(t.freeze, name);
}

/// Throws ConfigError if nothing is left to train, or if a pattern of train.freeze, lora_targets, no_decay or
/// lr_factors matches no parameter. `plan`: of any rank.
/// and where nothing is left to train. `plan`: of any rank.
void check_names(const RunSpec& spec, const plan::Plan& plan);

}  // namespace isobar::nets
