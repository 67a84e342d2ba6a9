// Memory of PyTorch's FSDP2 (fully_shard around every block, the embedding and the head) on one rank:
// operands as eager autograd keeps them, over the sequence of gathers and reductions. Only the runtime is
// left to prices.
//
//   FsdpStage s{layers, in_flight, first, last};
//   FsdpMemory m = fsdp_memory(run, s);      // m.states + m.fullest: bytes; + m.reserved: of the device
//
// Derived from torch.distributed.fsdp and torchtitan, and tested against PyTorch's own tracker, which counts
// every storage (bench/peers/fsdp_memory.py, tests/perfmodel/fsdp_memory_test.cpp).
#pragma once
#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

struct FsdpStage {
  double layers, in_flight;  // micro-batches with activations in memory at once
  bool first, last;          // has the embedding; has the head and the loss
};

struct FsdpMemory {
  double states = 0;    // shards in fp32 of parameters and two moments
  double fullest = 0;   // other bytes at the fullest moment
  double reserved = 0;  // held by the caching allocator for it, without the states
};

FsdpMemory fsdp_memory(const PublishedRun& run, const FsdpStage& stage);

}  // namespace isobar::perf
