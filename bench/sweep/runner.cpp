#include "bench/sweep/runner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <system_error>
#include <thread>

#include "bench/sweep/store.h"
#include "bench/sweep/trialdir.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/progress.h"

namespace isobar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// One sweep per directory. The supervisor of a trial inherits the lock, so after a kill it becomes free only
// when the trial's last process is gone.
class Lock {
 public:
  Lock(const fs::path& dir, double wait_s) {
    const fs::path file = dir / "lock";
    fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + file.string());
    const auto begin = std::chrono::steady_clock::now();
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        const int error = errno;
        ::close(fd_);
        throw std::system_error(error, std::generic_category(), "cannot lock " + file.string());
      }
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > wait_s) {
        ::close(fd_);
        throw ConfigError(dir.string(), "", "is in use by another sweep",
                          "wait for it, stop it, or use another --results");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  ~Lock() { ::close(fd_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int fd_ = -1;
};

void refuse_other_schema(const fs::path& results) {
  const fs::path file = results / "sweep.json";
  if (!fs::exists(file)) return;
  const json j = json::parse(read_file(file), nullptr, false);
  if (j.is_object() && j.value("schema", json(0)) == json(1)) return;
  throw ConfigError(file.string(), "schema", "was written by another version",
                    "use another --results directory");
}

json as_object(const Assignments& axes) {
  json j = json::object();
  for (const auto& [key, value] : axes) j[key] = value;
  return j;
}

void write_matrix(const Matrix& m, const SweepSpec& sweep, const fs::path& results) {
  json j = {{"schema", 1},
            {"file", sweep.file},
            {"base", sweep.base},
            {"excluded", m.excluded},
            {"duplicates", m.duplicates},
            {"trials", json::array()},
            {"skipped", json::array()}};
  for (const Trial& t : m.trials)
    j["trials"].push_back(
        {{"id", t.id}, {"repetition", t.repetition}, {"ranks", t.ranks()}, {"axes", as_object(t.axes)}});
  for (const Skipped& s : m.skipped)
    j["skipped"].push_back({{"axes", as_object(s.axes)}, {"reason", s.reason}});
  // A path may be in any encoding.
  write_atomically(results / "sweep.json", j.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

ProcessLimits limits_of(const TrialLimits& l, const RunSpec& spec) {
  // The run's own watch fires first and can name the op; this one is for a run that can no longer speak.
  return {.timeout_s = l.timeout_s,
          .hang_s = l.hang_s.value_or(spec.run.hang_timeout + 30),
          .grace_s = l.grace_s,
          .memory_bytes = l.memory_limit_mb * 1'000'000};
}

class Run {
 public:
  Run(const Matrix& matrix, const SweepSpec& sweep, const SweepOptions& options, Launcher& launcher)
      : matrix_(matrix), sweep_(sweep), options_(options), launcher_(launcher), store_(options.results) {}

  SweepOutcome operator()() {
    sort_out();
    store_.rebuild(load_runs(options_.results, &outcome_.problems));
    execute();
    collect();
    return std::move(outcome_);
  }

 private:
  // What is complete, what had finished unnoticed, what is left to run.
  void sort_out() {
    for (const Trial& t : matrix_.trials) {
      TrialDir dir(options_.results, t, sweep_.warmup);
      auto verdict = dir.verdict();
      if (!verdict && dir.adopt()) {
        ++outcome_.adopted;
        verdict = dir.verdict();
      }
      const bool again = options_.retry_failed && verdict && *verdict != RunClass::ok;
      if (verdict && is_final(*verdict) && !again)
        ++outcome_.reused;
      else
        todo_.push_back(&t);
    }
  }

  void execute() {
    Progress bar("sweep", static_cast<int64_t>(todo_.size()), options_.progress && !todo_.empty());
    size_t next = 0;
    int64_t done = 0;
    std::map<std::string, const Trial*> running;
    while (!running.empty() || (next < todo_.size() && !outcome_.interrupted)) {
      while (!outcome_.interrupted && next < todo_.size() &&
             static_cast<int>(running.size()) < launcher_.capacity()) {
        const Trial* t = todo_[next++];
        start(*t);
        running[t->id] = t;
      }
      const auto ended = launcher_.wait(0.2);
      if (ended) {
        finish(*running.at(ended->id), ended->outcome);
        running.erase(ended->id);
        ++done;
      }
      bar.update(done, running.empty() ? "" : label(running.begin()->second->axes));
      if (options_.stop && *options_.stop && !outcome_.interrupted) {
        outcome_.interrupted = true;
        launcher_.cancel();
      }
    }
    bar.finish();
  }

  void start(const Trial& t) {
    TrialDir dir(options_.results, t, sweep_.warmup);
    dir.prepare();
    // No shell anywhere: the path is one argument, quoted for the YAML that --set reads.
    launcher_.start(
        {.id = t.id,
         .dir = dir.path(),
         .command = {options_.trainer, "train", (dir.path() / "config.yaml").string(), "--ranks",
                     std::to_string(t.ranks()), "--set", "run.out=" + json(dir.path().string()).dump()},
         .ranks = t.ranks(),
         .limits = limits_of(sweep_.limits, t.spec)});
    ++outcome_.started;
  }

  void finish(const Trial& t, const ProcessOutcome& outcome) {
    TrialDir dir(options_.results, t, sweep_.warmup);
    dir.judge(outcome);
    std::vector<std::string> unheard;  // collect() reads the same files once more and keeps the problems
    if (!store_.put(load_run(dir.path(), &unheard))) store_.rebuild(load_runs(options_.results, &unheard));
  }

  void collect() {
    std::vector<std::string> problems;
    std::vector<RunRecord> all = load_runs(options_.results, &problems);
    store_.rebuild(all);
    outcome_.problems = std::move(problems);
    std::map<std::string, RunRecord*> by_id;
    for (RunRecord& r : all) by_id[r.id] = &r;
    for (const Trial& t : matrix_.trials) {
      RunRecord r;
      if (const auto it = by_id.find(t.id); it != by_id.end()) {
        r = *it->second;
      } else {
        r.id = t.id;
        r.repetition = t.repetition;
        r.spec = t.spec;
        r.ranks = t.ranks();
        r.message = "not run yet";
      }
      r.axes = as_object(t.axes);
      outcome_.runs.push_back(std::move(r));
    }
  }

  const Matrix& matrix_;
  const SweepSpec& sweep_;
  const SweepOptions& options_;
  Launcher& launcher_;
  Store store_;
  std::vector<const Trial*> todo_;
  SweepOutcome outcome_;
};

}  // namespace

bool SweepOutcome::complete() const {
  return std::all_of(runs.begin(), runs.end(), [](const RunRecord& r) { return r.complete; });
}

bool is_complete(const fs::path& trial_dir) {
  return fs::exists(trial_dir / "status.json") && load_run(trial_dir).complete;
}

SweepOutcome run_sweep(const Matrix& matrix, const SweepSpec& sweep, const SweepOptions& options,
                       Launcher& launcher) {
  if (::access(options.trainer.c_str(), X_OK) != 0)
    throw ConfigError(options.trainer, "", "is not an executable trainer", "build it first");
  fs::create_directories(options.results / "trials");
  refuse_other_schema(options.results);
  const Lock lock(options.results, options.lock_wait_s);
  launcher.recover(options.results);
  write_matrix(options.whole ? *options.whole : matrix, sweep, options.results);
  return Run(matrix, sweep, options, launcher)();
}

}  // namespace isobar
