// Job scripts for Slurm and PBS.
//
//   JobRequest job{.name = "isobar-1a2b3c4d", .nodes = 2, .command = {isobar, "sweep-job", …}};
//   slurm_script(cluster, job);
//   pbs_script(cluster, job);
//
// The environment variable kJobBegan holds the script's start time in seconds of the epoch, from which the
// command computes the time left.
//
// The script requests whole nodes, or of shared ones what its ranks need, loads modules, runs the preamble
// and becomes the command (exec), so that the scheduler's signals reach the command. Every word from a
// configuration is quoted.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/cluster/cluster.h"

namespace isobar::cluster {

struct JobRequest {
  std::string name;  // at most 15 characters, PBS's limit
  int64_t nodes = 1;
  int64_t ranks_a_node = 0;  // on shared nodes; 0 = all that a node has
  int64_t time_s = 600;      // time to request
  double lead_s = 0;         // before its end Slurm sends SIGUSR1, or a little sooner; PBS sends no signal
  std::string after;         // starts after the end of this job; "" = at once
  std::string cwd;           // working directory: relative paths in configurations start there
  std::vector<std::string> command;
};

inline constexpr const char* kJobBegan = "ISOBAR_JOB_BEGAN";

std::string slurm_script(const ClusterSpec& c, const JobRequest& job);
std::string pbs_script(const ClusterSpec& c, const JobRequest& job);

std::string hours(int64_t seconds);  // HH:MM:SS

/// Seconds of a time limit as sbatch -t takes it: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS.
/// Nothing where the text is none of these, or no time at all.
std::optional<int64_t> seconds_of_limit(const std::string& text);

}  // namespace isobar::cluster
