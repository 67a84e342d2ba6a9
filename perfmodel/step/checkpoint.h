// Time of writing checkpoints: whole tensors and the optimizer's moments in f32
// (model/inference/weights/checkpoint.h), written by the ranks that hold them, while training stops.
//
//   seconds = write.commit + max(write.checkpoint * bytes of the fullest host, all bytes / file system)
//
// The first term is independent of size: files are created, synced and renamed in sequence, and ranks wait
// for one another in between.
//
//   CheckpointCost c = checkpoint_cost(spec, 350e6, machine, ranks_on_host);
//   c.bytes, c.seconds (c.lower ... c.upper)   // of one
//   c.per_step                                 // spread over train.checkpoint_every; 0 without checkpoints
//   c.assumed                                  // assumptions about storage that the machine file leaves open
//
// Steps are measured and predicted without it.
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {

/// Log sigma of a run's checkpoints around their counts, before any were measured: disks are shared, and
/// journals commit at random times.
constexpr double kCheckpointScatter = 0.35;

/// Bytes of one: parameters of the whole net, and their moments.
double checkpoint_bytes(const RunSpec& spec, double parameters);

/// The writers of a checkpoint: all ranks, each its own shards; ranks with the same whole tensors share them
/// (model/nets/declare.cpp), but each writes at least its largest.
struct CheckpointWork {
  double bytes = 0;  // of all hosts
  double hosts = 1;
  Counts counts{};  // of Resource::write, of the fullest host
};
CheckpointWork checkpoint_work(const RunSpec& spec, double parameters, int64_t ranks_on_host);
/// At any prices.
double checkpoint_seconds(const CheckpointWork& work, const Counts& prices, const Storage& storage);

struct CheckpointCost {
  double bytes = 0;
  double seconds = 0, lower = 0, upper = 0;  // of one, 80 % interval
  double per_step = 0;
  std::vector<std::string> assumed;
};
CheckpointCost checkpoint_cost(const RunSpec& spec, double parameters, const Machine& machine,
                               int64_t ranks_on_host);
/// "a checkpoint of 4.2 GB takes 2.1 s (1.2 to 3.6): ..., if 5 GB/s a host ..." for display
std::string text_of(const CheckpointCost& c, const RunSpec& spec, double step_s);

}  // namespace isobar::perf
