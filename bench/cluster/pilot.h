// A pilot: what a cluster job does. It runs many trials one after the other inside its allocation, each on as
// many of its nodes as the trial needs, and judges each as a local sweep would.
//
//   int code = run_pilot("results/demo", "isobar-1a2b3c4d", &signal);      // `isobar sweep-job DIR NAME`
//
// It stops early when the scheduler says that time is up (SIGUSR1), when it is cancelled or preempted
// (SIGTERM), and when another life of the job has taken over. What it leaves is run by another job. A trial
// that writes checkpoints is told by SIGUSR1 in time for one more, and goes on from it there.
#pragma once
#include <csignal>
#include <filesystem>
#include <string>

namespace isobar {

/// 0: did all it could; 1: told to stop.
int run_pilot(const std::filesystem::path& results, const std::string& name,
              const volatile std::sig_atomic_t* signal);

}  // namespace isobar
