// One training as cluster jobs: a sweep of one trial, which resumes from its last checkpoint in as many jobs
// as it needs (bench/cluster/submit.h).
#pragma once
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cluster/cluster.h"

namespace isobar::cli {

struct SubmittedTraining {
  std::string config;
  std::vector<std::string> set;
  std::string launcher, machine, results, rank_output, time;  // time: the option -t
  nlohmann::json about = nlohmann::json::object();
  bool no_wait = false, dry_run = false, json = false;
};

/// Submits the training, or continues with its jobs, and follows them unless no_wait. Returns the exit code
/// of a local training; 1 also where it has not ended yet. dry_run: prints what it would submit. Throws
/// ConfigError.
int submit_training(const SubmittedTraining& a);

/// The machine's cluster, which must have that scheduler. `time`: the option -t, which bounds its jobs
/// instead of max_time_s; "" = not given. `command`: for the error, "isobar sweep".
cluster::ClusterSpec cluster_of(const std::string& command, const std::string& launcher,
                                const std::string& machine, const std::string& time);

inline void add_time_option(CLI::App& command, std::string& time) {
  command.add_option(
      "-t,--time", time,
      "With --launcher: most that a job may take, as for sbatch: HH:MM:SS, D-HH:MM:SS, minutes");
}

}  // namespace isobar::cli
