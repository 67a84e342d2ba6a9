// Names of a run's checkpoints: RUN/checkpoints/step-00000100. The suffix .tmp marks one that is being
// written, .damaged one that failed its check; `best` is a link to one of them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace isobar {

std::string checkpoint_name(int64_t step);
/// The step in a checkpoint's name; -1: it has none.
int64_t step_named(const std::filesystem::path& checkpoint);
/// A run's checkpoints by step, whole as far as names say: neither temporary nor set aside.
std::vector<std::filesystem::path> checkpoints_of(const std::filesystem::path& run_dir);

/// The next free name for a damaged checkpoint.
std::filesystem::path name_set_aside(const std::filesystem::path& checkpoint);
/// Says if any of a run's checkpoints was set aside, or the one of this step.
bool any_set_aside(const std::filesystem::path& run_dir);
bool was_set_aside(const std::filesystem::path& run_dir, int64_t step);

}  // namespace isobar
