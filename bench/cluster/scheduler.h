// What a sweep needs of a cluster's scheduler: take a script, say how jobs are, end one. Slurm and PBS are
// the two implementations; both speak through the cluster's own commands.
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

namespace isobar {

// unknown: the scheduler was asked and its answer says nothing of the job, from which nothing follows.
enum class JobPhase { waiting, running, ended, unheard_of, unknown };

struct JobKey {
  std::string name, id;  // the id is "" when the submitter died before it could write it down
};

struct JobWord {
  JobPhase phase = JobPhase::unheard_of;
  std::string id;
  std::string state;   // in Slurm's words: PENDING, RUNNING, COMPLETED, NODE_FAIL, PREEMPTED, TIMEOUT, …
  std::string reason;  // why it waits
};

/// One stretch of time for which a job held nodes; a requeued job has several.
struct JobLife {
  std::string state;
  double elapsed_s = 0;
  int64_t nodes = 0;
  std::string where;  // their names, as the scheduler abbreviates them
  bool over = true;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual std::string script(const ClusterSpec& c, const JobRequest& job) const = 0;
  /// Hands `file` (in `dir`, from where it is submitted) over; the job's id. Throws ConfigError with the
  /// scheduler's words when it refuses.
  virtual std::string submit(const ClusterSpec& c, const std::filesystem::path& dir,
                             const std::string& file) = 0;
  /// One word for each key; nothing when the scheduler does not answer, from which nothing follows. A job
  /// that an answer about several leaves out is asked for alone before it counts as over: schedulers do so
  /// (OpenPBS 2672).
  virtual std::optional<std::vector<JobWord>> ask(const std::vector<JobKey>& jobs) = 0;
  virtual void cancel(const std::string& id) = 0;
  /// By id, what the scheduler's books say of jobs; nothing when it keeps none.
  virtual std::optional<std::map<std::string, std::vector<JobLife>>> accounts(
      const std::vector<std::string>& ids) = 0;
  /// The fault of answers to the last question ("qstat's answer is no JSON at byte 412 …"); "":
  /// nothing.
  const std::string& trouble() const { return trouble_; }
  /// Inside of a job: its id, and the names of its nodes.
  virtual std::string own_id() const = 0;
  virtual std::vector<std::string> own_nodes() const = 0;
  /// After a trial of this name that had to be stopped: ends what the start command left on other nodes.
  virtual void clear(const std::string& trial) = 0;

 protected:
  std::string trouble_;
};

std::unique_ptr<Scheduler> scheduler_of(const std::string& name);  // slurm | pbs
std::unique_ptr<Scheduler> slurm();
std::unique_ptr<Scheduler> pbs();

}  // namespace isobar
