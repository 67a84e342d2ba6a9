// Runs ranks under an mpiexec of this process, which waits for it: to forward signals so that the ranks have
// time to react, and to record the run's end where no rank could. The first SIGINT, SIGTERM or SIGHUP asks
// the ranks to stop after a step (model/engine/liveness/signals.h), the second ends them at once, a third
// kills them.
//
//   return run_ranks(2, {"mpiexec", "-n", "2", self, "train", …}, spec.run.out);
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace isobar::ranks {

/// Starts `words`, an mpiexec of `ranks` ranks. Returns the exit code: mpiexec's, or 128 + signal where one
/// of SIGINT, SIGTERM and SIGHUP came meanwhile and the run did not end well. The first asks the ranks to
/// stop after a step (model/engine/liveness/signals.h), the second ends them at once, a third kills.
/// `run_dir`: where a run that ended badly without a word gets its run_end; "" = nowhere. mpiexec goes when
/// this process does. Throws std::runtime_error when it cannot be started, ConfigError where it may open too
/// few files.
int run_ranks(int64_t ranks, std::vector<std::string> words, const std::filesystem::path& run_dir);

}  // namespace isobar::ranks
