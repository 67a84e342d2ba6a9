// One training as cluster jobs: a sweep of one trial, which resumes from its last checkpoint in as many jobs
// as it needs (bench/cluster/submit.h).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cluster/cluster.h"

namespace isobar {

struct SubmittedTraining {
  std::string config;
  std::vector<std::string> set;
  std::string launcher, machine, results, rank_output;
  nlohmann::json about = nlohmann::json::object();
  bool no_wait = false, json = false;
};

/// Submits the training, or continues with its jobs, and follows them unless no_wait. Returns the exit code
/// of a local training; 1 also where it has not ended yet. Throws ConfigError.
int submit_training(const SubmittedTraining& a);

/// The machine's cluster, which must have that scheduler. `command`: for the error, "isobar sweep".
ClusterSpec cluster_of(const std::string& command, const std::string& launcher, const std::string& machine);

}  // namespace isobar
