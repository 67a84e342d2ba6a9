// Checkpoints: RUN/checkpoints/step-00000100/{model,optimizer}.safetensors and state.json;
// average.safetensors of a run that keeps a moving average of its weights. A directory appears under its
// final name only when everything in it is on disk; nothing but what a kill left unfinished is ever
// overwritten, and nothing else deleted but by keep_last(). The safetensors files hold the net's whole
// tensors, so they do not know the layout that wrote them, and any other can load them: every rank writes and
// reads its own parts in place. state.json says what the run was, and holds size and digest of both files.
//
//   const Meeting all = meeting_of(mpi, threads);
//   save_checkpoint(run_dir, plan, params, m, v, {.train = {.step = 100}, .spec = spec}, all);   // every
//   rank load_checkpoint(find_checkpoint(run_dir), plan, params, m, v, all);
#pragma once
#include <filesystem>

#include "model/inference/checkpoint_state.h"
#include "model/inference/meeting.h"
#include "model/inference/open_checkpoint.h"
#include "model/plan/plan.h"

namespace isobar {

/// Collective over all ranks, which see one file system. params, m and v: the plan's buffers params, adam.m
/// and adam.v as they lie in the arena; params16: where some parameters are there alone (Param::half);
/// average: the plan's buffer ema, if it has one. Returns the checkpoint's directory. Throws ConfigError
/// where there is one of this step already. An exception on one rank leaves the others waiting: it must end
/// the run (MPI's abort), and the checkpoint then stays under its temporary name.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, const Plan& plan,
                                      const float* params, const float* m, const float* v,
                                      CheckpointState state, const Meeting& all,
                                      const void* params16 = nullptr, const float* average = nullptr);
/// Names a checkpoint `best` in its run, for as long as no other is: RUN/checkpoints/best is a link to it.
void name_best(const std::filesystem::path& checkpoint);
/// Reads this rank's parts. Throws ConfigError for another net.
void load_checkpoint(const OpenCheckpoint& checkpoint, const Plan& plan, float* params, float* m, float* v,
                     void* params16 = nullptr, float* average = nullptr);
/// Collective: the same of one that is opened first.
CheckpointState load_checkpoint(const std::filesystem::path& checkpoint, const Plan& plan, float* params,
                                float* m, float* v, const Meeting& all, void* params16 = nullptr,
                                float* average = nullptr);
/// Deletes all but the last `keep` checkpoints of a run and the one that is named best.
void keep_last(const std::filesystem::path& run_dir, int64_t keep);
/// The weights alone, of another training of the net, perhaps without adapters: those keep their values then.
/// `from`: a run, a checkpoint or a safetensors file; one of a checkpoint is compared with its digest. Throws
/// ConfigError naming train.init_from.
void load_first_weights(const std::filesystem::path& from, const Plan& plan, float* params, void* params16,
                        const Meeting& all);

}  // namespace isobar
