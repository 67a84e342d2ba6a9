// The pilot is the program of a cluster job. It runs trials one after the other inside its allocation, each
// on as many nodes as it needs, and judges them as a local sweep does.
//
//   int code = run_pilot("results/demo", "isobar-1a2b3c4d", &signal);      // `isobar sweep-job DIR NAME`
//
// It stops early on SIGUSR1 (time limit near), on SIGTERM (cancelled or preempted), and when another life of
// the job has taken over; another job then runs the remaining trials. A trial that writes checkpoints gets
// SIGUSR1 in time for one more, from which it continues there.
#pragma once
#include <csignal>
#include <filesystem>
#include <string>

namespace isobar::cluster {

/// Returns 0 after all that it could run, 1 when it was stopped early.
int run_pilot(const std::filesystem::path& results, const std::string& name,
              const volatile std::sig_atomic_t* signal);

}  // namespace isobar::cluster
