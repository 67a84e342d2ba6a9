// The cluster jobs of a results directory, and the assignment of trials to them.
//
//   DIR/jobs/<name>/job.json    what it shall do: trials with their specifications, start command, limits
//                   script      what the scheduler got;   out: what the job said
//                   id          the scheduler's
//                   owner       "1", "2", …: which life of the job may write (a requeued one has several);
//                               "closed": none any more
//                   state.json  how it ended;   accounting.json: what it took
//                   (bench/cluster/schedulers/accounting.h)
//   DIR/trials/<id>/claim       the job that has the trial
//
// A trial belongs to one job at a time. Claims change under the directory's lock (resultsdir.h). A job polls
// `owner` and stops once another life of it, or a submitter that considers it dead, has written there; so a
// job that survives the loss of its node can neither repeat a trial nor corrupt a result.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/sweep/results/trials.h"

namespace isobar::sweep {

class JobDir {
 public:
  JobDir(const std::filesystem::path& results, const std::string& name)
      : results_(results), name_(name), dir_(results / "jobs" / name) {}

  const std::filesystem::path& path() const { return dir_; }
  const std::string& name() const { return name_; }
  std::string id() const;
  void write_id(const std::string& id) const;
  /// job.json. Throws ConfigError if it is unreadable or incomplete.
  nlohmann::json description() const;

  bool closed() const;
  void close(const std::string& state) const;
  /// Begins another life and returns its number; 0 if the job is closed.
  int64_t begin_life() const;
  bool is_life(int64_t life) const;

 private:
  std::string owner() const;
  std::filesystem::path results_;
  std::string name_;
  std::filesystem::path dir_;
};

/// Names of the open jobs.
std::vector<std::string> open_jobs(const std::filesystem::path& results);

std::string claimed_by(const std::filesystem::path& trial_dir);  // "": unclaimed
void claim(const std::filesystem::path& trial_dir, const std::string& job);
void release(const std::filesystem::path& trial_dir);

/// planned, submitted (claimed by a job), running, or the class of its last verdict.
std::string trial_state(const std::filesystem::path& results, const std::string& trial);

nlohmann::json to_json(const Trial& t);
/// Throws ConfigError.
Trial trial_from_json(const nlohmann::json& j, const std::string& file);

}  // namespace isobar::sweep
