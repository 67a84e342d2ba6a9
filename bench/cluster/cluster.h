// A cluster for sweeps: the `cluster:` section of a machine file.
//
//   cluster:
//     scheduler: slurm                 # or pbs
//     start: srun                      # how ranks start inside a job: srun | openmpi | pals
//     start_options: [--mpi=pmix]      # words, passed on as they are
//     ranks_per_node: 4
//     cores_per_node: 64               # PBS asks for them, and Slurm on shared nodes
//     exclusive: false                 # nodes are shared: a job asks for the part that its ranks need
//     gpus_per_rank: 1                 # asked for as --gres or ngpus;  memory_per_rank_gb: 60
//     queue: debug                     # Slurm's partition;  account, qos, constraint
//     required: [account]              # what a person has to add before anything is submitted
//     directives: ["--gpus-per-node=4"]  # more lines for the scheduler
//     modules: [cudatoolkit]
//     preamble: [[source, /opt/env.sh], [ulimit, -n, "4096"]]   # commands as lists of words
//     environment: {OMP_NUM_THREADS: 1}
//     cores: [4-7, 8-11]               # of each rank of a node, in order: its CPU binding
//     job_time_s: 1800                 # about how long a job shall be;  max_time_s: 14400, min_time_s: 0
//     max_jobs: 4                      # under way at a time;  retries: 2, poll_s: 10
//     preflight: true                  # measure every node before the first trial and leave out slow ones
//     spare_nodes: 1                   # asked for besides, so that there is something to leave out
//     max_nodes: 128                   # of a job;  charge: 1.0, of a node and hour (isobar budget)
//
// Nothing here reaches a shell unquoted: `$` and `;` in a preamble's words are plain characters.
#pragma once
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace isobar::cluster {

struct ClusterSpec {
  std::string file;
  std::string scheduler = "slurm";
  std::string start = "srun";
  std::vector<std::string> start_options;
  int64_t ranks_per_node = 1;
  int64_t cores_per_node = 1;
  bool exclusive = true;          // false: jobs share nodes, and ask for what their ranks need of them
  int64_t gpus_per_rank = 0;      // 0: not asked for, or by directives
  double memory_per_rank_gb = 0;  // 0: not asked for
  std::string queue, account, qos, constraint;
  std::vector<std::string> required;  // keys among these four that the user must add
  std::vector<std::string> directives, modules;
  std::vector<std::vector<std::string>> preamble;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> cores;  // "4-7", one a local rank; {} = not bound
  double job_time_s = 1800;
  double max_time_s = 4 * 3600;
  double min_time_s = 0;  // shortest job that the queue accepts
  double start_s = 30;    // start-up of a trial, before its steps
  int64_t max_jobs = 4;
  int64_t retries = 2;
  double poll_s = 10;
  double fence_s = 4;  // wait of a job that took over, in which one that lost its node can notice
  bool preflight = false;
  int64_t spare_nodes = 0;
  int64_t max_nodes = 0;  // of a job; 0: as many as there are
  double charge = 1;      // of a node and hour

  int64_t nodes(int64_t ranks) const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
  /// Ranks that a job asks each node for, if its trials have `ranks`.
  int64_t ranks_a_node(int64_t ranks) const {
    return exclusive ? ranks_per_node : std::min(ranks, ranks_per_node);
  }
  int64_t cores_per_rank() const { return std::max<int64_t>(1, cores_per_node / ranks_per_node); }
};

/// The section of a machine file. Throws ConfigError with file, key and fix.
ClusterSpec load_cluster(const std::string& machine_file);
ClusterSpec cluster_from_json(const nlohmann::json& section, const std::string& file);
nlohmann::json to_json(const ClusterSpec& c);
/// Throws ConfigError, before anything is submitted, where a key that the site requires of every user is
/// missing.
void refuse_incomplete(const ClusterSpec& c);

/// Names of its keys.
const std::vector<std::string>& cluster_keys();

}  // namespace isobar::cluster
