// Checkpoints: RUN/checkpoints/step-00000100/{model,optimizer}.safetensors and state.json. A directory
// appears under its final name only when everything in it is on disk; nothing is ever overwritten or deleted.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "model/plan/plan.h"

namespace isobar {

struct TrainState {
  int64_t step = 0;  // optimizer steps done; the loader's position follows from it
  int64_t seed = 0;
  int64_t global_batch = 0;
};

/// params, m and v are whole buffers of the arena. Returns the checkpoint's directory.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, const Plan& plan,
                                      const float* params, const float* m, const float* v,
                                      const TrainState& state);
/// `dir`: a run directory (its last whole checkpoint is taken) or one checkpoint. Throws ConfigError.
std::filesystem::path find_checkpoint(const std::filesystem::path& dir);
TrainState load_checkpoint(const std::filesystem::path& checkpoint, const Plan& plan, float* params, float* m,
                           float* v);

}  // namespace isobar
