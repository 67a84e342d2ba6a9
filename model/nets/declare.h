// The parameters of this rank's stages, and where they lie.
//
//   declare_parameters(b, spec, at, params, stages, ends, blocks, final_norm);   // blocks[i].qkv.weight …
//   params.need(part_of(stage, i));
#pragma once
#include <span>

#include "model/nets/block.h"
#include "model/nets/ends.h"
#include "model/nets/sharding.h"
#include "model/nets/stages.h"
#include "model/plan/parameters.h"

namespace isobar {

// Parts of a chunk, in forward order: the embedding, its blocks, the head.
inline int part_of(const Stage& stage, int64_t block) {
  return static_cast<int>(1 + block - stage.first);
}
inline int head_of(const Stage& stage) {
  return part_of(stage, stage.end);
}

/// Those that tensor parallelism cuts lie first, then those that it leaves whole: their gradients are summed
/// over different groups. Within both: chunk by chunk, in forward order. `blocks`: of the whole net; those of
/// other stages stay empty.
void declare_parameters(Builder& b, const RunSpec& spec, const Sharding& at, Parameters& params,
                        const Stages& stages, Ends& ends, std::span<Block> blocks, Norm& final_norm);

}  // namespace isobar
