#include "bench/sweep/run/runner.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "bench/sweep/results/resultsdir.h"
#include "bench/sweep/results/store.h"
#include "bench/sweep/results/trialdir.h"
#include "bench/sweep/run/jobs.h"
#include "model/base/error.h"
#include "model/base/text/progress.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Run {
 public:
  Run(const Matrix& matrix, const SweepSpec& sweep, const SweepOptions& options, Launcher& launcher)
      : matrix_(matrix), sweep_(sweep), options_(options), launcher_(launcher), store_(options.results) {}

  SweepOutcome operator()() {
    sort_out();
    store_.rebuild(records::load_runs(options_.results, &outcome_.problems));
    execute();
    collect();
    return std::move(outcome_);
  }

 private:
  // Classifies trials as complete, finished but not judged, or still to run.
  void sort_out() {
    for (const Trial& t : matrix_.trials) {
      TrialDir dir(options_.results, t, sweep_.warmup);
      auto verdict = dir.verdict();
      if (!verdict && dir.adopt()) {
        ++outcome_.adopted;
        verdict = dir.verdict();
      }
      const bool again = options_.retry_failed && verdict && *verdict != records::RunClass::ok;
      if (dir.finished() && !again)
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
      bar.update(done, running.empty() ? "" : running.begin()->second->name);
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
    launcher_.start(
        {.id = t.id,
         .dir = dir.path(),
         .command = trainer_command(options_.trainer, dir.path(), t.ranks(), options_.rank_output),
         .ranks = t.ranks(),
         .limits = limits_of(sweep_.limits, t)});
    ++outcome_.started;
  }

  void finish(const Trial& t, const ProcessOutcome& outcome) {
    TrialDir dir(options_.results, t, sweep_.warmup);
    const Verdict v = dir.judge(outcome, plausibility_of(t, sweep_.limits));
    if (v.storage)
      throw std::runtime_error(dir.path().string() + ": " + v.message +
                               " -> make room; what is finished is kept");
    std::vector<std::string> unheard;  // collect() reads the files again and reports problems
    if (!store_.put(records::load_run(dir.path(), &unheard)))
      store_.rebuild(records::load_runs(options_.results, &unheard));
  }

  void collect() { store_.rebuild(collect_runs(matrix_, options_.results, outcome_)); }

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
  return std::all_of(runs.begin(), runs.end(), [](const records::RunRecord& r) { return r.complete; });
}

SweepOutcome run_sweep(const Matrix& matrix, const SweepSpec& sweep, const SweepOptions& options,
                       Launcher& launcher) {
  if (::access(options.trainer.c_str(), X_OK) != 0)
    throw ConfigError(options.trainer, "", "is not an executable trainer", "build it first");
  open_results(options.results);
  const FileLock lock = lock_results(options.results, options.lock_wait_s);
  if (const std::vector<std::string> jobs = open_jobs(options.results); !jobs.empty())
    throw ConfigError((options.results / "jobs" / jobs.front()).string(), "",
                      "is a cluster job still under way",
                      "go on with --launcher slurm or pbs, or use another --results");
  launcher.recover(options.results);
  write_matrix(options.whole ? *options.whole : matrix, sweep, options.results);
  return Run(matrix, sweep, options, launcher)();
}

}  // namespace isobar::sweep
