// Checkpoints: RUN/checkpoints/step-00000100/{model,optimizer}.safetensors and state.json. A directory
// appears under its final name only when everything in it is on disk; nothing but what a kill left unfinished
// is ever overwritten or deleted. The files hold the net's whole tensors, so a checkpoint does not know the
// layout that wrote it, and any other can load it: every rank writes and reads its own parts in place.
//
//   Meeting all{mpi.rank(), [&] { mpi.barrier(); }, [&](auto s) { return mpi.from_first(s); }};
//   save_checkpoint(run_dir, plan, params, m, v, {.step = 100}, all);   // on every rank
//   load_checkpoint(find_checkpoint(run_dir), plan, params, m, v);
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "model/engine/schedule_lr.h"
#include "model/plan/plan.h"

namespace isobar {

struct TrainState {
  int64_t step = 0;  // optimizer steps done; the loader's position follows from it
  int64_t seed = 0;
  int64_t global_batch = 0;
  // Of runs with a scaled loss; 0 in the files of others.
  int64_t updates = 0;     // steps that were not skipped
  double loss_scale = 0;   // of the next one
  int64_t good_steps = 0;  // since the scale has changed
  Plateau plateau;         // of the learning rate
};

struct Meeting {  // how the ranks of a run wait for each other; as it stands, a world of one
  int rank = 0;
  std::function<void()> barrier = [] {};
  std::function<std::string(std::string)> from_first = [](std::string s) {
    return s;
  };  // rank 0's, everywhere
};

/// Collective over all ranks, which see one file system. params, m and v: the plan's buffers params, adam.m
/// and adam.v as they lie in the arena. Returns the checkpoint's directory. An exception on one rank leaves
/// the others waiting: it must end the run (MPI's abort), and the checkpoint then stays under its temporary
/// name.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, const Plan& plan,
                                      const float* params, const float* m, const float* v,
                                      const TrainState& state, const Meeting& all);
/// `dir`: a run directory (its last whole checkpoint is taken) or one checkpoint. Throws ConfigError.
std::filesystem::path find_checkpoint(const std::filesystem::path& dir);
/// Reads this rank's parts only. Throws ConfigError.
TrainState load_checkpoint(const std::filesystem::path& checkpoint, const Plan& plan, float* params, float* m,
                           float* v);

}  // namespace isobar
