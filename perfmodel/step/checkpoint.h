// What writing checkpoints costs: whole tensors and the optimizer's moments in f32
// (model/engine/checkpoint.h), written by the hosts that hold them, while training stands still.
//
//   CheckpointCost c = checkpoint_cost(spec, 350e6, machine, hosts);
//   c.bytes, c.seconds                   // of one
//   c.per_step                           // spread over train.checkpoint_every; 0 without checkpoints
//
// It is no part of a step's time: steps are measured without it.
#pragma once
#include "model/base/spec.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

struct CheckpointCost {
  double bytes = 0, seconds = 0, per_step = 0;
};
/// `parameters`: of the whole net. `ranks_on_host`: how many share a host, each writing what it answers for.
CheckpointCost checkpoint_cost(const RunSpec& spec, double parameters, const Machine& machine,
                               int64_t ranks_on_host);
/// "a checkpoint of 4.2 GB takes 2.1 s: ..." for people
std::string text_of(const CheckpointCost& c, const RunSpec& spec, double step_s);

}  // namespace isobar
