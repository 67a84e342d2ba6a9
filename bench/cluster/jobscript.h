// The script of one cluster job, by the rules of its scheduler.
//
//   JobRequest job{.name = "isobar-1a2b3c4d", .nodes = 2, .command = {isobar, "sweep-job", …}};
//   slurm_script(cluster, job);
//   pbs_script(cluster, job);
//
// The command finds in kJobBegan when the script began, in seconds of the epoch: by what was asked for, it
// knows what time is left.
//
// The script asks for whole nodes, loads modules, runs the preamble and becomes the command (exec), so that
// the scheduler's signals reach that. Every word from a configuration is quoted.
#pragma once
#include <string>
#include <vector>

#include "bench/cluster/cluster.h"

namespace isobar {

struct JobRequest {
  std::string name;  // at most 15 characters: what every PBS takes
  int64_t nodes = 1;
  int64_t time_s = 600;  // what is asked for
  double lead_s = 0;  // before its end the command is told by SIGUSR1, or a little sooner; PBS tells nothing
  std::string after;  // starts when the job of this id has ended; "" = at once
  std::string cwd;    // where the command runs: relative paths in configurations start there
  std::vector<std::string> command;
};

inline constexpr const char* kJobBegan = "ISOBAR_JOB_BEGAN";

std::string slurm_script(const ClusterSpec& c, const JobRequest& job);
std::string pbs_script(const ClusterSpec& c, const JobRequest& job);

std::string hours(int64_t seconds);  // HH:MM:SS

}  // namespace isobar
