// Checkpoints: RUN/checkpoints/step-00000100/{model,optimizer}.safetensors and state.json;
// average.safetensors of a run that keeps a moving average of its weights. A directory gets its final name
// only when all of its files are on disk; complete checkpoints are never overwritten, and only keep_last()
// deletes them. The safetensors files hold the net's whole tensors, of which each rank writes and reads its
// own parts, so that any layout can load them. state.json describes the run and holds size and digest of the
// other files.
//
//   const Meeting all = meeting_of(mpi, threads);
//   save_checkpoint(run_dir, plan, params, m, v, {.train = {.step = 100}, .spec = spec}, all);
//   load_checkpoint(find_checkpoint(run_dir), plan, params, m, v, all);
#pragma once
#include <filesystem>

#include "model/inference/meeting.h"
#include "model/inference/weights/checkpoint_state.h"
#include "model/inference/weights/open_checkpoint.h"
#include "model/plan/plan.h"

namespace isobar::inference {

/// Collective over all ranks, which share a file system; returns the checkpoint's directory. params, m, v and
/// average are the plan's buffers params, adam.m, adam.v and ema in the arena; params16 is for parameters
/// stored only in 16 bits (Param::half). Throws ConfigError when this step has a checkpoint. An exception on
/// one rank must end the run (MPI_Abort), since the others wait for it.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, const plan::Plan& plan,
                                      const float* params, const float* m, const float* v,
                                      CheckpointState state, const Meeting& all,
                                      const void* params16 = nullptr, const float* average = nullptr);
/// Makes RUN/checkpoints/best a link to this checkpoint.
void name_best(const std::filesystem::path& checkpoint);
/// Reads this rank's parts. Throws ConfigError when the checkpoint is of another net.
void load_checkpoint(const OpenCheckpoint& checkpoint, const plan::Plan& plan, float* params, float* m,
                     float* v, void* params16 = nullptr, float* average = nullptr);
/// Collective: opens the checkpoint and loads it.
CheckpointState load_checkpoint(const std::filesystem::path& checkpoint, const plan::Plan& plan,
                                float* params, float* m, float* v, const Meeting& all,
                                void* params16 = nullptr, float* average = nullptr);
/// Deletes all checkpoints of a run but the last `keep` and the best.
void keep_last(const std::filesystem::path& run_dir, int64_t keep);
/// Loads only weights, of another training of the net; absent adapters keep their values. `from`: a run, a
/// checkpoint or a safetensors file, verified by its digest if it belongs to a checkpoint; errors name
/// train.init_from.
void load_first_weights(const std::filesystem::path& from, const plan::Plan& plan, float* params,
                        void* params16, const Meeting& all);

}  // namespace isobar::inference
