// The keys that a resumed run may change, and those that must equal the checkpoint's.
//
//   const Resume r = check_resume("runs/first", spec);     // ConfigError with the key and both values
//   r.from;                                                // runs/first/checkpoints/step-00000100
//   text_of(r);          // "resumes …/step-00000100, after step 100; changed: train.lr 0.001 -> 0.0005"
//
// May change: layout.*, policy.*, run.*; paths, statistics and reading of data; train.steps, rates,
// schedules, the loss and its weights, clipping, and the frequency of all output. All else must be equal:
// net.*, train.optimizer, and the keys that determine the next samples (train.seed, train.global_batch,
// data.variables, dt, train_fraction, limit_samples, shuffle).
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/inference/weights/open_checkpoint.h"
#include "model/records/records.h"

namespace isobar::engine {

struct ChangedKey {
  std::string key;
  nlohmann::json before, now;
};

struct Resume {
  std::filesystem::path from;  // a checkpoint
  inference::CheckpointState state;
  std::vector<ChangedKey> changes;
  std::shared_ptr<const inference::OpenCheckpoint> opened =
      nullptr;  // once all ranks have verified its bytes
};

/// The checkpoint that `dir` (a run or a checkpoint) stands for, checked as far as possible without reading
/// its tensors: its state, its files' sizes and steps, and its spec against this one. Throws
/// DamagedCheckpoint, and ConfigError where it does not fit `spec`.
Resume check_resume(const std::filesystem::path& dir, const RunSpec& spec);

/// Updates the changes, once keys have their values that are chosen at the start (policy.micro_batch on a
/// GPU).
void compare_again(Resume& r, const RunSpec& spec);

std::string text_of(const Resume& r);
records::ResumeRecord record_of(const Resume& r);

}  // namespace isobar::engine
