// Runs ranks under an mpiexec of this process, which waits for it: to forward signals so that the ranks have
// time to react, and to record the run's end where no rank could.
//
//   return run_ranks({"mpiexec", "-n", "2", self, "train", …}, spec.run.out);
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace isobar {

/// Returns the exit code: mpiexec's, or 128 + signal where SIGINT, SIGTERM or SIGHUP came meanwhile and the
/// run did not end well. The first signal asks the ranks to stop after a step (model/engine/signals.h), the
/// second ends them at once, a third kills them. A run that ended badly without a record gets its run_end in
/// `run_dir` ("" = nowhere). mpiexec dies with this process. Throws std::runtime_error when it cannot be
/// started.
int run_ranks(std::vector<std::string> words, const std::filesystem::path& run_dir);

}  // namespace isobar
