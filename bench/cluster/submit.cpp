#include "bench/cluster/submit.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "bench/cluster/grouping.h"
#include "bench/cluster/schedulers/accounting.h"
#include "bench/sweep/command_words.h"
#include "bench/sweep/results/resultsdir.h"
#include "bench/sweep/results/store.h"
#include "bench/sweep/results/trialdir.h"
#include "bench/sweep/run/jobs.h"
#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "model/base/text/progress.h"

namespace isobar::cluster {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kMostFruitless = 4;
constexpr size_t kMostTroubles = 5;   // reported: each answer may be faulty in another way
constexpr double kSubmission_s = 30;  // after which a submission that was begun has reached the scheduler
constexpr double kLeaving_s = 120;  // within which a job ends after its last trial (epilogs, busy schedulers)

std::string new_name() {
  std::random_device random;
  return printed("isobar-%08x", static_cast<unsigned>(random()));
}

/// Folders of a results directory that did not exist before; removed again where they are empty.
class NewFolders {
 public:
  explicit NewFolders(const fs::path& results) {
    const fs::path whole = fs::absolute(results).lexically_normal();
    for (const char* name : {"lock", "trials", "jobs"}) note(whole / name);
    for (fs::path at = whole; at.has_relative_path() && note(at);) at = at.parent_path();
  }
  void remove() const {
    std::error_code none;
    for (const fs::path& one : paths_)
      if (one.filename() != "lock" || !fs::exists(one.parent_path() / "sweep.json")) fs::remove(one, none);
  }

 private:
  bool note(const fs::path& path) {
    if (fs::exists(path)) return false;
    paths_.push_back(path);
    return true;
  }
  std::vector<fs::path> paths_;  // what is in a folder before the folder
};

class ClusterSweep {
 public:
  ClusterSweep(const sweep::Matrix& m, const sweep::SweepSpec& s, const sweep::SweepOptions& o,
               const ClusterSpec& c, Scheduler& scheduler, bool wait, const std::string& after)
      : matrix_(m), sweep_(s), options_(o), cluster_(c), scheduler_(scheduler), wait_(wait), after_(after) {
    for (const sweep::Trial& t : m.trials) by_id_[t.id] = &t;
  }

  sweep::SweepOutcome operator()() {
    Progress bar("sweep", static_cast<int64_t>(matrix_.trials.size()), options_.progress);
    for (bool first = true;; first = false) {
      int64_t left = 0;
      std::string note;
      {
        const FileLock lock = sweep::lock_results(options_.results, std::max(options_.lock_wait_s, 60.0));
        if (first) {
          refuse_other_scheduler();
          count_reused();
        }
        follow();
        submit();
        keep_matrix();
        left = unfinished();
        note = live_.empty() ? "" : std::to_string(live_.size()) + " jobs" + waiting_;
      }
      bar.update(static_cast<int64_t>(matrix_.trials.size()) - left, note);
      if (live_.empty() || !wait_) break;
      if (left == 0 && !may_leave()) break;
      if (!pause()) {
        outcome_.interrupted = left > 0;
        break;
      }
    }
    bar.finish();
    const FileLock lock = sweep::lock_results(options_.results, std::max(options_.lock_wait_s, 60.0));
    const std::vector<std::string> earlier = outcome_.problems;
    sweep::Store(options_.results).rebuild(sweep::collect_runs(matrix_, options_.results, outcome_));
    outcome_.problems.insert(outcome_.problems.begin(), earlier.begin(), earlier.end());
    explain();
    outcome_.used = read_back(options_.results, scheduler_);
    report(scheduler_.trouble());
    for (const std::string& trouble : troubles_)
      outcome_.problems.push_back(cluster_.scheduler + ": " + trouble);
    return std::move(outcome_);
  }

 private:
  sweep::TrialDir directory(const sweep::Trial& t) const {
    return {options_.results, t, sweep_.warmup, cluster_.retries + 1};
  }

  void refuse_other_scheduler() const {
    for (const std::string& name : sweep::open_jobs(options_.results)) {
      const sweep::JobDir job(options_.results, name);
      const std::string other = job.description().at("cluster").at("scheduler");
      if (other != cluster_.scheduler)
        throw ConfigError((job.path() / "job.json").string(), "cluster.scheduler",
                          "is a job of " + other + " that is still open",
                          "go on with --launcher " + other + ", or use another --results");
    }
  }

  void count_reused() {
    for (const sweep::Trial& t : matrix_.trials) {
      const sweep::TrialDir dir = directory(t);
      const bool again = options_.retry_failed && dir.finished() && *dir.verdict() != records::RunClass::ok;
      if (again) again_.insert(t.id);
      outcome_.reused += dir.finished() && !again;
    }
  }

  bool done(const sweep::Trial& t) {
    if (again_.contains(t.id)) return false;
    if (done_.contains(t.id)) return true;
    if (!directory(t).finished()) return false;
    done_.insert(t.id);  // final
    return true;
  }
  int64_t unfinished() {
    return std::count_if(matrix_.trials.begin(), matrix_.trials.end(),
                         [&](const sweep::Trial& t) { return !done(t) && !held_.contains(t.id); });
  }

  // Updates our jobs from the scheduler; jobs that are over release their trials.
  void follow() {
    const std::vector<std::string> names = sweep::open_jobs(options_.results);
    std::set<std::string> before;
    std::swap(before, live_);
    waiting_.clear();
    for (const std::string& name : before)  // another submitter saw it end
      if (std::find(names.begin(), names.end(), name) == names.end())
        hold_if_cancelled(sweep::JobDir(options_.results, name));
    if (names.empty()) return;
    std::vector<JobKey> keys;
    keys.reserve(names.size());
    for (const std::string& n : names) keys.push_back({n, sweep::JobDir(options_.results, n).id()});
    const auto words = scheduler_.ask(keys);
    report(scheduler_.trouble());
    for (size_t i = 0; i < names.size(); ++i) {
      sweep::JobDir job(options_.results, names[i]);
      if (!words) {  // no answer, so no job may count as over
        live_.insert(names[i]);
        waiting_ = ", the scheduler does not answer";
        continue;
      }
      const JobWord& w = (*words)[i];
      if (w.phase == JobPhase::unknown) {  // it may be running
        live_.insert(names[i]);
        waiting_ = ", the scheduler says nothing of " + names[i];
      } else if (w.phase == JobPhase::waiting || w.phase == JobPhase::running) {
        if (keys[i].id.empty() && !w.id.empty()) job.write_id(w.id);  // its submitter died before
        if (w.phase == JobPhase::waiting && !w.reason.empty() && w.reason != "None")
          waiting_ = ", waiting: " + w.reason;
        live_.insert(names[i]);
      } else if (w.phase == JobPhase::unheard_of && age_s(job) < kSubmission_s) {
        live_.insert(names[i]);
      } else {
        const std::string state = w.phase == JobPhase::unheard_of ? "never submitted" : w.state;
        settle(job, w.id, state, before.contains(names[i]));
      }
    }
  }

  /// Reported once when it occurs and again at the end: an unreadable answer must not pass silently.
  void report(const std::string& trouble) {
    if (trouble.empty() || troubles_.size() >= kMostTroubles || !troubles_.insert(trouble).second) return;
    tell(cluster_.scheduler + ": " + trouble);
  }

  // The user cancelled it: submitting it again at once would be against their intention.
  void hold_if_cancelled(const sweep::JobDir& job) {
    const json ended = json_if_there(job.path() / "state.json");
    const json state = ended.is_object() ? ended.value("state", json()) : json();
    if (!state.is_string() || !state.get<std::string>().starts_with("CANCELLED")) return;
    const json about = job.description();
    for (const json& one : about.at("trials")) held_.insert(one.at("id").get<std::string>());
  }

  // The last verdict is written before its job ends; the accounting is complete only after that, so wait a
  // while.
  bool may_leave() {
    const auto now = std::chrono::steady_clock::now();
    if (!all_done_) all_done_ = now;
    return std::chrono::duration<double>(now - *all_done_).count() < kLeaving_s;
  }

  static double age_s(const sweep::JobDir& job) {
    const auto written = fs::last_write_time(job.path() / "job.json");
    return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
  }

  void settle(const sweep::JobDir& job, const std::string& id, const std::string& state, bool watched) {
    job.close(state);
    tell(job.name() + " (" + (id.empty() ? "no id" : id) + ") is over: " + state);
    const bool lost_node = state.starts_with("NODE_FAIL");
    if (lost_node) std::this_thread::sleep_for(std::chrono::duration<double>(cluster_.fence_s));
    int began = 0;
    const json about = job.description();
    for (const json& one : about.at("trials")) {
      const sweep::Trial t = sweep::trial_from_json(one, (job.path() / "job.json").string());
      sweep::TrialDir dir = directory(t);
      if (sweep::claimed_by(dir.path()) != job.name()) continue;
      give_verdict(dir, job.name(), id, state);
      began += began_well(dir, id);
      if (t.chained() && !dir.finished())
        tell(t.id + " goes on from step " + std::to_string(dir.saved_step()));
      sweep::release(dir.path());
    }
    if (watched) hold_if_cancelled(job);
    any_began_ = any_began_ || began > 0;
    if (!state.starts_with("CANCELLED")) ++fruitless_;
    last_over_ = job.path();
  }

  // True if this job brought the trial further than to a launch failure.
  static bool began_well(const sweep::TrialDir& dir, const std::string& id) {
    if (!dir.verdict()) return false;
    const json j = json_if_there(dir.path() / "status.json");
    return j.is_object() && j.value("job", json()) == json(id) &&
           *dir.verdict() != records::RunClass::launch_fail;
  }

  void tell(const std::string& what) const {
    if (options_.progress) std::fprintf(stderr, "\n%s\n", what.c_str());
  }

  void give_verdict(sweep::TrialDir& dir, const std::string& name, const std::string& id,
                    const std::string& state) const {
    const bool started = word_in(dir.path() / "started_by") == name;
    if (!started || dir.finished()) return;
    const auto own = dir.verdict();
    if (!own) {
      if (!dir.adopt()) dir.settle(sweep::verdict_of_job(state, id), id);
    } else if (*own == records::RunClass::interrupted) {  // the pilot was stopped, and could not know why
      dir.settle(sweep::verdict_of_job(state, id), id);
    }
  }

  void submit() {
    if (options_.stop && *options_.stop) return;
    std::vector<const sweep::Trial*> todo;
    const std::vector<std::string> open = sweep::open_jobs(options_.results);
    for (const sweep::Trial& t : matrix_.trials) {
      if (done(t) || held_.contains(t.id)) continue;
      const std::string who = sweep::claimed_by(directory(t).path());
      if (!who.empty() && std::find(open.begin(), open.end(), who) != open.end()) continue;
      // Finished, but the process that ran it, or that settled its job, died before it could record the
      // verdict.
      if (sweep::TrialDir dir = directory(t); !again_.contains(t.id) && !dir.verdict() && dir.adopt()) {
        ++outcome_.adopted;
        continue;
      }
      todo.push_back(&t);
    }
    if (todo.empty()) return;
    if (!any_began_ && fruitless_ >= kMostFruitless) {  // the cluster is broken, not the trials
      outcome_.problems.assign(
          1, std::to_string(fruitless_) + " jobs began no trial: see " + last_over_.string());
      return;
    }
    // Trials with launch failures go last: a job ends early when nothing starts any more.
    std::stable_partition(todo.begin(), todo.end(), [&](const sweep::Trial* t) {
      return directory(*t).verdict() != records::RunClass::launch_fail;
    });
    for (const PlannedJob& p : plan_jobs(todo, sweep_, cluster_, options_.results)) {
      if (static_cast<int64_t>(live_.size()) >= cluster_.max_jobs) break;
      submit(p);
    }
  }

  void submit(const PlannedJob& p) {
    const sweep::JobDir job(options_.results, new_name());
    const JobRequest request = request_of(p, job.name(), options_, cluster_, after_);
    // Written before the submission: after a kill in between, the next process finds the job.
    write_atomically(job.path() / "owner", "0\n");
    write_atomically(job.path() / "script", scheduler_.script(cluster_, request));
    write_atomically(job.path() / "job.json",
                     json_text(description_of(p, job.name(), sweep_, options_, cluster_), 1) + "\n");
    std::vector<sweep::TrialDir> archived;
    for (const sweep::Trial* t : p.trials) {
      sweep::TrialDir dir = directory(*t);
      if (again_.contains(t->id)) {
        dir.prepare();  // archives the old verdict in attempt-<n>/
        archived.push_back(dir);
      }
      fs::create_directories(dir.path());
      sweep::claim(dir.path(), job.name());
    }
    try {
      const std::string id = scheduler_.submit(cluster_, job.path(), "script");
      if (!id.empty()) job.write_id(id);
    } catch (const ConfigError&) {
      take_back(p, job, archived);
      throw;
    }
    for (const sweep::Trial* t : p.trials) again_.erase(t->id);
    keep_matrix();
    live_.insert(job.name());
    outcome_.started += static_cast<int64_t>(p.trials.size());
  }

  // A refused job leaves nothing behind: neither its folder nor claims, and old verdicts are back.
  void take_back(const PlannedJob& p, const sweep::JobDir& job,
                 std::vector<sweep::TrialDir>& archived) const {
    job.close("refused");  // first, so that it is over whatever happens to the rest
    for (sweep::TrialDir& dir : archived) dir.take_back();
    std::error_code none;
    for (const sweep::Trial* t : p.trials) {
      const fs::path dir = directory(*t).path();
      sweep::release(dir);
      fs::remove(dir, none);  // where it is empty
    }
    fs::remove_all(job.path());
  }

  // After the first job is accepted: a refused sweep is none.
  void keep_matrix() {
    if (std::exchange(matrix_kept_, true)) return;
    sweep::write_matrix(options_.whole ? *options_.whole : matrix_, sweep_, options_.results);
  }

  bool pause() const {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <
           cluster_.poll_s) {
      if (options_.stop && *options_.stop) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }

  // Explains the state of trials without a verdict.
  void explain() {
    for (records::RunRecord& r : outcome_.runs) {
      if (r.complete) continue;
      const std::string state = sweep::trial_state(options_.results, r.id);
      if (state != "submitted" && state != "running") continue;
      const std::string job = sweep::claimed_by(options_.results / "trials" / r.id);
      r.message = state;
      r.message.append(": ").append(job).append(", ").append(cluster_.scheduler).append(" job ");
      r.message += sweep::JobDir(options_.results, job).id();
    }
  }

  const sweep::Matrix& matrix_;
  const sweep::SweepSpec& sweep_;
  const sweep::SweepOptions& options_;
  const ClusterSpec& cluster_;
  Scheduler& scheduler_;
  const bool wait_;
  const std::string& after_;
  std::map<std::string, const sweep::Trial*> by_id_;
  std::set<std::string> live_;   // waiting or running jobs
  std::set<std::string> held_;   // trials of jobs that were cancelled by others
  std::set<std::string> done_;   // trials with a final verdict
  std::set<std::string> again_;  // finished trials that --retry-failed runs again
  std::string waiting_;
  std::set<std::string> troubles_;                                 // in the scheduler's answers
  std::optional<std::chrono::steady_clock::time_point> all_done_;  // since when no trial is left
  bool any_began_ = false;                                         // a trial got past its launch
  bool matrix_kept_ = false;
  int fruitless_ = 0;  // number of jobs that are over
  fs::path last_over_;
  sweep::SweepOutcome outcome_;
};

}  // namespace

int cancel_jobs(const fs::path& results, Scheduler& scheduler) {
  int n = 0;
  for (const std::string& name : sweep::open_jobs(results))
    if (const std::string id = sweep::JobDir(results, name).id(); !id.empty()) {
      scheduler.cancel(id);
      ++n;
    }
  return n;
}

sweep::SweepOutcome run_on_cluster(const sweep::Matrix& matrix, const sweep::SweepSpec& sweep,
                                   const sweep::SweepOptions& options, const ClusterSpec& cluster,
                                   Scheduler& scheduler, bool wait, const std::string& after) {
  if (::access(options.trainer.c_str(), X_OK) != 0)
    throw ConfigError(options.trainer, "", "is not an executable trainer", "build it first");
  refuse_incomplete(cluster);
  for (const sweep::Trial& t : matrix.trials) sweep::require_words_of_nodes(t.spec, cluster.nodes(t.ranks()));
  const NewFolders made(options.results);
  sweep::open_results(options.results);
  try {
    return ClusterSweep(matrix, sweep, options, cluster, scheduler, wait, after)();
  } catch (const ConfigError&) {
    made.remove();
    throw;
  }
}

}  // namespace isobar::cluster
