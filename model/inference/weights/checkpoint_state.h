// state.json of a checkpoint: the run's specification, its progress, and the checkpoint's files, so that a
// resume can verify them.
//
//   {"schema": 2, "step": 100, "spec": {…}, "plateau": {…},
//    "files": {"model.safetensors": {"bytes", "digest"}},
//    "channels": {"inputs": [{"name", "units", "mean", "std"}], "targets": […]},
//    "places": {"hours", "rows", "columns", "latitude", "longitude"}, "sha256": of all the rest}
//
//   write_atomically(dir / "state.json", text_of(state));
//   const CheckpointState state = read_state(dir);          // with checks: state_of (open_checkpoint.h)
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/inference/early_stop.h"
#include "model/inference/schedule_lr.h"
#include "model/inference/weights/net_channels.h"

namespace isobar::inference {

struct TrainState {
  int64_t step = 0;  // optimizer steps done; the loader's position follows from it
  // With loss scaling only, else 0:
  int64_t updates = 0;     // steps that were not skipped
  double loss_scale = 0;   // of the next step
  int64_t good_steps = 0;  // since the last change of the scale
  Plateau plateau;         // state of lr_schedule plateau
  EarlyStop early;         // `reason`: why the run ended with this checkpoint
};

struct CheckpointFile {
  int64_t bytes = 0;
  std::string digest;  // file_digest.h
};

struct CheckpointState {
  int schema = 2;  // 1 (until November 2026): no files; spec has only train.seed and train.global_batch
  TrainState train;
  RunSpec spec;                                 // the writing run's
  NetChannels channels;                         // not known() in files before December 2026
  std::map<std::string, CheckpointFile> files;  // by name

  bool checkable() const { return schema > 1; }
};

/// The checkpoint's files differ from those written; another checkpoint of the run may be intact
/// (open_checkpoint.h).
class DamagedCheckpoint : public ConfigError {
 public:
  explicit DamagedCheckpoint(const std::string& line) : ConfigError(ConfigError::from_line(line)) {}
  std::filesystem::path checkpoint;  // "": unknown
};

std::string text_of(const CheckpointState& state);
/// Throws DamagedCheckpoint naming a key that is missing, of a wrong type or impossible, or when the text has
/// changed since it was written. Throws ConfigError for an intact file of another version.
CheckpointState read_state(const std::filesystem::path& checkpoint);

}  // namespace isobar::inference
