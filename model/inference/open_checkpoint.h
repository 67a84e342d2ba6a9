// A checkpoint opened for reading: the one way to what is in it. Its files are there, of the sizes and of the
// step that its state says, its name says that step too, and every byte of what is opened was compared with
// the digest that it was written with.
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

#include "model/base/checkpoint_names.h"
#include "model/inference/checkpoint_state.h"
#include "model/inference/meeting.h"
#include "model/inference/safetensors.h"

namespace isobar {

/// `dir`: a run directory (its last checkpoint is taken) or one checkpoint. Throws ConfigError, naming
/// the option that gave it.
std::filesystem::path find_checkpoint(const std::filesystem::path& dir,
                                      const std::string& option = "--resume");

/// Its state, found fit for its name. Throws DamagedCheckpoint, which names the last whole one, and
/// ConfigError for what another Isobar wrote.
CheckpointState state_of(const std::filesystem::path& checkpoint);
/// Checks that a checkpoint's files are there, of the size that they were written in, and all of its step.
/// Throws as state_of does.
void check_files(const std::filesystem::path& checkpoint, const CheckpointState& state);

/// model: the last step's. weights: what the run was validated by, the moving average too where it was.
enum class CheckpointPart : uint8_t { model, weights, all };

class OpenCheckpoint {
 public:
  using Reader = std::shared_ptr<const SafetensorsReader>;
  /// Collective: the ranks compare the digests together. Throws DamagedCheckpoint on rank 0, for which the
  /// others wait: it must end the run.
  OpenCheckpoint(const std::filesystem::path& checkpoint, CheckpointPart part, const Meeting& all);
  /// The same, for callers that can go on from another one: null on every rank where this one is damaged, and
  /// on rank 0 `why`.
  static std::shared_ptr<const OpenCheckpoint> if_whole(const std::filesystem::path& checkpoint,
                                                        CheckpointPart part, const Meeting& all,
                                                        std::optional<DamagedCheckpoint>& why);

  const std::filesystem::path& path() const { return path_; }
  const CheckpointState& state() const { return state_; }
  const Reader& model() const { return model_; }
  const Reader& optimizer() const { return optimizer_; }  // of `all`
  const Reader& average() const { return average_; }      // of `all` and `weights`; null: there is none
  /// One of those by its file's name; null: it was not opened.
  Reader file(const std::string& name) const;

 private:
  OpenCheckpoint(const std::filesystem::path& checkpoint, CheckpointState state, CheckpointPart part);
  std::filesystem::path path_;
  CheckpointState state_;
  Reader model_, optimizer_, average_;
};

/// Why one checkpoint of a run cannot be gone on from, every byte of it compared; nothing where it can be.
std::optional<std::string> damage_of(const std::filesystem::path& checkpoint);
/// Renames it, says so on stderr, and returns its name.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint, const std::string& why);
/// Names in a checkpoint's folder
inline constexpr const char *kModelFile = "model.safetensors", *kOptimizerFile = "optimizer.safetensors",
                            *kAverageFile = "average.safetensors";

}  // namespace isobar
