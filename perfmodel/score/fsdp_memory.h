// What PyTorch's fully sharded data parallelism (FSDP2: fully_shard around every block, the embedding and the
// head) takes on one rank, operand by operand as eager autograd keeps them and moment by moment as units are
// gathered and reduced. Nothing of it is left to prices but the runtime.
//
//   FsdpStage s{layers, in_flight, first, last};
//   FsdpMemory m = fsdp_memory(run, s);      // m.states + m.fullest: bytes; + m.reserved: of the device
//
// Read of torch.distributed.fsdp and of torchtitan, and held against PyTorch's own tracker, which counts
// every storage (bench/peers/fsdp_memory.py, tests/perfmodel/fsdp_memory_test.cpp).
#pragma once
#include "perfmodel/score/published_run.h"

namespace isobar {

struct FsdpStage {
  double layers, in_flight;  // micro-batches whose activations are there at once
  bool first, last;          // has the embedding; has the head and the loss
};

struct FsdpMemory {
  double states = 0;    // shards in fp32 of parameters and two moments
  double fullest = 0;   // what else is there on the fullest moment
  double reserved = 0;  // what the caching allocator holds for it, without the states
};

FsdpMemory fsdp_memory(const PublishedRun& run, const FsdpStage& stage);

}  // namespace isobar
