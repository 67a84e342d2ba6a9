// A checkpoint opened and verified for reading. Its files exist with the sizes in state.json, step and
// directory name agree, and every byte of the opened files matches the digest written with them.
//
//   const OpenCheckpoint c(find_checkpoint("runs/first"), CheckpointPart::weights, {.threads = 2});
//   c.state().train.step;
//   TrainedWeights(c).write("merged.safetensors");
//
// The error over a damaged one names the last whole one of its run. A training that goes on from that sets
// the damaged one aside: step-00000100 becomes step-00000100.damaged, and is a checkpoint no more.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "model/base/names/checkpoint_names.h"
#include "model/inference/meeting.h"
#include "model/inference/weights/checkpoint_state.h"
#include "model/inference/weights/safetensors.h"

namespace isobar::inference {

/// `dir`: a run directory, for its last checkpoint, or one checkpoint. Throws ConfigError naming `option`.
std::filesystem::path find_checkpoint(const std::filesystem::path& dir,
                                      const std::string& option = "--resume");

/// Reads the state and compares it with the directory's name. Throws DamagedCheckpoint, which names the last
/// intact checkpoint, and ConfigError for a file of another version.
CheckpointState state_of(const std::filesystem::path& checkpoint);
/// Checks that a checkpoint's files are there, of the size that they were written in, and all of its step.
/// Throws as state_of does.
void check_files(const std::filesystem::path& checkpoint, const CheckpointState& state);

/// model: the weights of the last step. weights: those validated, with the moving average if the run keeps
/// one.
enum class CheckpointPart : uint8_t { model, weights, all };

class OpenCheckpoint {
 public:
  using Reader = std::shared_ptr<const SafetensorsReader>;
  /// Collective: all ranks verify the digests. Throws DamagedCheckpoint on rank 0 while the others wait, so
  /// it must end the run.
  OpenCheckpoint(const std::filesystem::path& checkpoint, CheckpointPart part, const Meeting& all);
  /// For callers that can use another checkpoint: returns null on every rank when this one is damaged, and
  /// sets `why` on rank 0.
  static std::shared_ptr<const OpenCheckpoint> if_whole(const std::filesystem::path& checkpoint,
                                                        CheckpointPart part, const Meeting& all,
                                                        std::optional<DamagedCheckpoint>& why);

  const std::filesystem::path& path() const { return path_; }
  const CheckpointState& state() const { return state_; }
  const Reader& model() const { return model_; }
  const Reader& optimizer() const { return optimizer_; }  // with `all`
  const Reader& average() const { return average_; }      // with `all` and `weights`; null: none
  /// One of these by its file name; null: not opened.
  Reader file(const std::string& name) const;

 private:
  OpenCheckpoint(const std::filesystem::path& checkpoint, CheckpointState state, CheckpointPart part);
  std::filesystem::path path_;
  CheckpointState state_;
  Reader model_, optimizer_, average_;
};

/// Why a training cannot continue from a checkpoint, after a check of every byte; none when it can.
std::optional<std::string> damage_of(const std::filesystem::path& checkpoint);
/// Renames a damaged checkpoint, reports it on stderr, and returns the new name.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint, const std::string& why);
/// File names in a checkpoint's directory
inline constexpr const char *kModelFile = "model.safetensors", *kOptimizerFile = "optimizer.safetensors",
                            *kAverageFile = "average.safetensors";

}  // namespace isobar::inference
