// The cluster jobs of a results directory, and which of them has which trial.
//
//   DIR/jobs/<name>/job.json    what it shall do: trials with their specifications, start command, limits
//                   script      what the scheduler got;   out: what the job said
//                   id          the scheduler's
//                   owner       "1", "2", …: which life of the job may write (a requeued one has several);
//                               "closed": none any more
//                   state.json  how it ended;   accounting.json: what it took (bench/cluster/accounting.h)
//   DIR/trials/<id>/claim       the job that has the trial
//
// A trial belongs to one job at a time. Claims are made and released under the directory's lock
// (resultsdir.h); a job looks at `owner` all the time, and stops at once when another life of it, or a
// submitter that holds it for dead, has written there. So a job that lost its node but still lives can
// neither run a trial twice nor spoil a result.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/sweep/trials.h"

namespace isobar {

class JobDir {
 public:
  JobDir(const std::filesystem::path& results, const std::string& name)
      : results_(results), name_(name), dir_(results / "jobs" / name) {}

  const std::filesystem::path& path() const { return dir_; }
  const std::string& name() const { return name_; }
  std::string id() const;
  void write_id(const std::string& id) const;
  /// job.json. Throws ConfigError when it cannot be read, or lacks what a job needs.
  nlohmann::json description() const;

  bool closed() const;
  void close(const std::string& state) const;
  /// Another life: its number, 0 when the job is closed.
  int64_t begin_life() const;
  bool is_life(int64_t life) const;

 private:
  std::string owner() const;
  std::filesystem::path results_;
  std::string name_;
  std::filesystem::path dir_;
};

/// Names of the jobs that are not closed.
std::vector<std::string> open_jobs(const std::filesystem::path& results);

std::string claimed_by(const std::filesystem::path& trial_dir);  // "" = nobody
void claim(const std::filesystem::path& trial_dir, const std::string& job);
void release(const std::filesystem::path& trial_dir);

/// planned, submitted (a job has it), running, or the class of its last verdict.
std::string trial_state(const std::filesystem::path& results, const std::string& trial);

/// Throws ConfigError unless `id` can be the name of a trial's folder: any text may stand in a file.
void require_trial_id(const std::string& id, const std::string& file);

nlohmann::json to_json(const Trial& t);
/// Throws ConfigError.
Trial trial_from_json(const nlohmann::json& j, const std::string& file);

}  // namespace isobar
