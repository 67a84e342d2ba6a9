// The interface to a cluster's scheduler: submit a script, query jobs, cancel one. Slurm and PBS implement it
// by their own commands.
//
//   const auto scheduler = scheduler_of(cluster);
//   const std::string id = scheduler->submit(cluster, job, dir);
//   for (const JobWord& w : *scheduler->ask({{"isobar-1a2b3c4d", id}})) …
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cluster/jobscript.h"

namespace isobar::cluster {

// unknown: the scheduler's answer says nothing about the job, so its state must not be inferred.
enum class JobPhase { waiting, running, ended, unheard_of, unknown };

struct JobKey {
  std::string name, id;  // "" when the submitter died before it could record the id
};

struct JobWord {
  JobPhase phase = JobPhase::unheard_of;
  std::string id;
  std::string state;   // as Slurm names it: PENDING, RUNNING, COMPLETED, NODE_FAIL, PREEMPTED, TIMEOUT, …
  std::string reason;  // why it waits
};

/// A period for which a job held nodes; a requeued job has several.
struct JobLife {
  std::string state;
  double elapsed_s = 0;
  int64_t nodes = 0;
  std::string where;  // names of the nodes, as the scheduler abbreviates them
  bool over = true;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual std::string script(const ClusterSpec& c, const JobRequest& job) const = 0;
  /// Submits `file` from `dir` and returns the job's id; "" where its answer has none, so that the job is
  /// found by its name. Throws ConfigError with the scheduler's message when it refuses.
  virtual std::string submit(const ClusterSpec& c, const std::filesystem::path& dir,
                             const std::string& file) = 0;
  /// The state of each job; nothing when the scheduler does not answer, from which no state may be inferred.
  /// A job missing from an answer about several is queried alone before it counts as over, because schedulers
  /// omit jobs (OpenPBS 2672).
  virtual std::optional<std::vector<JobWord>> ask(const std::vector<JobKey>& jobs) = 0;
  virtual void cancel(const std::string& id) = 0;
  /// Accounting of jobs by id; nothing when the scheduler keeps none.
  virtual std::optional<std::map<std::string, std::vector<JobLife>>> accounts(
      const std::vector<std::string>& ids) = 0;
  /// The fault in the answers to the last query ("qstat's answer is no JSON at byte 412 …"); "": none.
  const std::string& trouble() const { return trouble_; }
  /// Inside a job: its id, and the names of its nodes.
  virtual std::string own_id() const = 0;
  virtual std::vector<std::string> own_nodes() const = 0;
  /// Cleans up after a stopped trial of this name: ends processes that the start command left on other nodes.
  virtual void clear(const std::string& trial) = 0;

 protected:
  std::string trouble_;
};

std::unique_ptr<Scheduler> scheduler_of(const std::string& name);  // slurm | pbs
std::unique_ptr<Scheduler> slurm();
std::unique_ptr<Scheduler> pbs();

}  // namespace isobar::cluster
