// One training as a cluster's jobs: a sweep of one trial, which goes on from its last checkpoint through as
// many jobs as it takes (bench/cluster/submit.h).
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

/// Submits it, or takes its jobs up again, and follows them unless no_wait. The exit code, as of a training
/// here; 1 too where it has not ended yet. Throws ConfigError.
int submit_training(const SubmittedTraining& a);

/// The machine's cluster, which has to be of that scheduler. `command`: for the error, "isobar sweep".
ClusterSpec cluster_of(const std::string& command, const std::string& launcher, const std::string& machine);

}  // namespace isobar
