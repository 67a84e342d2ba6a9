// Runs ranks under an mpiexec of this process, which waits for it: to forward signals so that the ranks have
// time to react, and to record the run's end where no rank could. The first SIGINT, SIGTERM or SIGHUP asks
// the ranks to stop after a step (model/engine/signals.h), the second ends them at once, a third kills them.
//
//   return run_ranks({"mpiexec", "-n", "2", self, "train", …}, spec.run.out);
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace isobar {

/// Returns mpiexec's exit code, or 128 + signal where a signal came and the run did not end well; throws
/// std::runtime_error when mpiexec cannot be started. A run that ended badly without a record gets its
/// run_end in `run_dir` ("" = nowhere), and mpiexec dies with this process.
int run_ranks(std::vector<std::string> words, const std::filesystem::path& run_dir);

}  // namespace isobar
