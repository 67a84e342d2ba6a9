// state.json of a checkpoint: what the run was, where it stood, and which files belong to it, so that a
// resume can check what it resumes.
//
//   {"schema": 2, "step": 100, "spec": {…}, "plateau": {…}, "files": {"model.safetensors": {"bytes",
//   "digest"}},
//    "channels": {"inputs": [{"name", "units", "mean", "std"}], "targets": […]}, "sha256": of all the rest}
//
//   write_atomically(dir / "state.json", text_of(state));
//   const CheckpointState state = read_state(dir);          // of a checkpoint: state_of (open_checkpoint.h)
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "model/base/error.h"
#include "model/base/spec.h"
#include "model/inference/early_stop.h"
#include "model/inference/net_channels.h"
#include "model/inference/schedule_lr.h"

namespace isobar {

struct TrainState {
  int64_t step = 0;  // optimizer steps done; the loader's position follows from it
  // Of runs with a scaled loss; 0 in the files of others.
  int64_t updates = 0;     // steps that were not skipped
  double loss_scale = 0;   // of the next one
  int64_t good_steps = 0;  // since the scale has changed
  Plateau plateau;         // of the learning rate
  EarlyStop early;         // `reason`: why the run ended with this checkpoint
};

struct CheckpointFile {
  int64_t bytes = 0;
  std::string digest;  // file_digest.h
};

struct CheckpointState {
  int schema =
      2;  // 1 (until November 2026): no files, and of the spec only train.seed and train.global_batch
  TrainState train;
  RunSpec spec;                                 // of the run that wrote it
  NetChannels channels;                         // not known() of files written before December 2026
  std::map<std::string, CheckpointFile> files;  // by name

  bool checkable() const { return schema > 1; }
};

/// Its files are not what was written: another one of its run may be whole (open_checkpoint.h).
class DamagedCheckpoint : public ConfigError {
 public:
  explicit DamagedCheckpoint(const std::string& line) : ConfigError(ConfigError::from_line(line)) {}
  std::filesystem::path checkpoint;  // "": not known here
};

std::string text_of(const CheckpointState& state);
/// Throws DamagedCheckpoint naming the key that is missing, of a wrong type or impossible, or says that the
/// text was changed since it was written; ConfigError for what another version wrote whole.
CheckpointState read_state(const std::filesystem::path& checkpoint);

}  // namespace isobar
