// What a resumed run may do otherwise than the run that wrote its checkpoint, and what it may not: one list.
//
//   const Resume r = check_resume("runs/first", spec);     // ConfigError with the key and both values
//   r.from;                                                // runs/first/checkpoints/step-00000100
//   text_of(r);          // "resumes …/step-00000100, after step 100; changed: train.lr 0.001 -> 0.0005"
//
// May change: layout.*, policy.*, run.*; where data lie, what they are normalised by and how they are read;
// train.steps, rates, schedules, the loss and its weights, clipping, and how often things are written. All
// else must be equal: net.*, train.optimizer, and what decides which samples come next (train.seed,
// train.global_batch, data.variables, dt, train_fraction, limit_samples, shuffle).
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/inference/open_checkpoint.h"
#include "model/records/records.h"

namespace isobar {

struct ChangedKey {
  std::string key;
  nlohmann::json before, now;
};

struct Resume {
  std::filesystem::path from;  // a checkpoint
  CheckpointState state;
  std::vector<ChangedKey> changes;
  std::shared_ptr<const OpenCheckpoint> opened = nullptr;  // once all ranks have compared its bytes
};

/// The checkpoint that `dir` (a run or a checkpoint) means, found fit for `spec` as far as can be told
/// without reading its tensors: its state, the sizes of its files, the step in each of them, its spec against
/// this one. Throws DamagedCheckpoint,
/// and ConfigError for what does not fit.
Resume check_resume(const std::filesystem::path& dir, const RunSpec& spec);

/// What of the specification has changed, when part of it is chosen only now (policy.micro_batch on a GPU).
void compare_again(Resume& r, const RunSpec& spec);

std::string text_of(const Resume& r);
ResumeRecord record_of(const Resume& r);

}  // namespace isobar
