// The parameters of this rank's stages, and where they lie.
//
//   declare_parameters(b, spec, at, params, stages, ends, blocks, final_norm);   // blocks[i].qkv.weight …
//   params.need(part_of(i));
#pragma once
#include <span>

#include "model/nets/block.h"
#include "model/nets/ends.h"
#include "model/nets/sharding.h"
#include "model/nets/stages.h"
#include "model/plan/parameters.h"

namespace isobar {

constexpr int kEmbed = 0;
inline int part_of(int64_t block) {
  return static_cast<int>(1 + block);
}
inline int head_of(const NetSpec& net) {
  return part_of(net.depth);
}

/// Those that tensor parallelism cuts lie first, then those that it leaves whole: their gradients are summed
/// over different groups. Within both: chunk by chunk, in forward order. `blocks`: of the whole net; those of
/// other stages stay empty.
void declare_parameters(Builder& b, const RunSpec& spec, const Sharding& at, Parameters& params,
                        const Stages& stages, Ends& ends, std::span<Block> blocks, Norm& final_norm);

}  // namespace isobar
