// What writing checkpoints costs: whole tensors and the optimizer's moments in f32
// (model/engine/checkpoint.h), written by the hosts that hold them, while training stands still.
//
//   seconds = write.commit + write.checkpoint * bytes of a host
//
// The first is what even the smallest one takes: its files are made, synced and renamed one after the other,
// and ranks wait for one another in between. A net of 10 MB spends half of its time there.
//
//   CheckpointCost c = checkpoint_cost(spec, 350e6, machine, ranks_on_host);
//   c.bytes, c.seconds (c.lower ... c.upper)   // of one
//   c.per_step                                 // spread over train.checkpoint_every; 0 without checkpoints
//
// It is no part of a step's time: steps are measured without it.
#pragma once
#include <string>

#include "model/base/spec.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

/// Log sigma of a run's checkpoints about what their counts say, until runs have shown it: disks are shared,
/// and a journal commits when it likes.
constexpr double kCheckpointScatter = 0.35;

/// Bytes of one: parameters of the whole net, and their moments.
double checkpoint_bytes(const RunSpec& spec, double parameters);
/// Counts of Resource::write. `ranks_on_host`: how many share a host, each writing what it answers for.
Counts count_checkpoint(const RunSpec& spec, double parameters, int64_t ranks_on_host);

struct CheckpointCost {
  double bytes = 0;
  double seconds = 0, lower = 0, upper = 0;  // of one, 80 % interval
  double per_step = 0;
};
CheckpointCost checkpoint_cost(const RunSpec& spec, double parameters, const Machine& machine,
                               int64_t ranks_on_host);
/// "a checkpoint of 4.2 GB takes 2.1 s (1.2 to 3.6): ..." for people
std::string text_of(const CheckpointCost& c, const RunSpec& spec, double step_s);

}  // namespace isobar
