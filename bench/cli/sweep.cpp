// isobar sweep: the command line of bench/sweep.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "bench/cli/sweep_suggest.h"
#include "bench/sweep/runner.h"
#include "bench/sweep/summary.h"
#include "model/base/error.h"

namespace isobar {
namespace {

constexpr const char* kHelp = R"(Runs every trial of a matrix, each in a process of its own.

A sweep file names a run configuration and what to vary:

  base: ../models/vit-tiny.yaml      # relative to this file
  set: {train.global_batch: 8}       # fixed for all trials
  steps: 12                          # optimizer steps of a trial
  warmup: 2                          # of them, left out of the statistics
  axes:                              # every combination is a trial
    gpus: [1, 2]                     # world size; dp = gpus / (tp * cp * pp)
    policy.amp: [none, bf16]         # any key of a run configuration
    data.workers: [0, 2]
  include: [{gpus: 2, policy.bucket_mb: 1}]       # combinations besides
  exclude: [{gpus: 2, data.workers: [1, 2]}]      # a list means any of these
  constraints: {max_ranks: 8}
  repetitions: 3                     # interleaved, not back to back
  order: random                      # or listed;  seed: 0
  timeout_s: 600                     # per trial;  hang_s: 120, memory_limit_mb: 8000, grace_s: 5

A combination that cannot be run is reported as skipped, with the reason.

Stop it with Ctrl-C or kill it at any moment: the same command goes on where it was, runs no finished trial again
and keeps what an unfinished one left. A trial that crashes, hangs or runs out of memory is recorded as such:
  ok  bad_config  oom_host  oom_device  timeout  hang  crash  numeric  launch_fail  interrupted
The last two are tried again by the next sweep, the other failures only with --retry-failed.

Not all trials have to run. With a machine file (isobar calibrate), --suggest N names the N trials that would lower
the expected regret of your choice most: what the layout that looks best now is expected to fall short of the best
one. It fits the machine to what DIR holds, prints each trial with its predicted time, its chance to be the best and
what it is worth, and runs nothing; --run runs them. --until 'regret<2%' goes on in rounds of N (4), fitting anew
after each, until the expected regret is below that, all is measured, or DIR holds --max-trials. It can be killed and
given again like any sweep. --rehearse S plays a finished sweep S times as if it had not run, and tells how many
trials suggestions need and how many random order needs.

Results: DIR/trials/<id>/ (result.jsonl is the truth), DIR/index.sqlite (tables runs, ops, steps), DIR/sweep.json.
Exit code: 0 every trial (of a round: every suggested one) has its verdict, and --until reached its end; 1 not so; 2 bad configuration, 130 stopped by Ctrl-C.

Examples:
  isobar sweep configs/sweeps/demo.yaml --dry-run
  isobar sweep configs/sweeps/demo.yaml --results results/demo
  isobar sweep configs/sweeps/demo.yaml --results results/demo --machine results/machine.yaml --suggest 4
  isobar sweep configs/sweeps/demo.yaml --results results/demo --machine results/machine.yaml --until 'regret<2%'
  sqlite3 results/demo/index.sqlite "SELECT ranks, policy_amp, step_s_median FROM runs WHERE class = 'ok'")";

volatile std::sig_atomic_t g_stop = 0;  // written by the signal handler only

void on_signal(int s) {
  g_stop = s;
}

struct Arguments {
  std::string file, results, trainer, machine;
  SuggestArguments suggest;
  bool dry_run = false, json = false, retry_failed = false;
};

std::string show(const nlohmann::json& j) {  // a path may be in any encoding
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

SweepOutcome execute(const Arguments& a, const Matrix& matrix, const SweepSpec& sweep, const Matrix& whole) {
  LocalLauncher launcher;
  return run_sweep(matrix, sweep,
                   {.results = a.results,
                    .trainer = a.trainer,
                    .retry_failed = a.retry_failed,
                    .whole = &whole,
                    .stop = &g_stop},
                   launcher);
}

int run(const Arguments& a) {
  const SweepSpec sweep = load_sweep_spec(a.file);
  const Matrix matrix = expand(sweep);
  if (a.dry_run) {
    const std::string text = a.json ? show(dry_run_json(matrix, sweep)) : dry_run_table(matrix);
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  if (a.results.empty())
    throw ConfigError("isobar sweep", "--results", "is missing",
                      "say where results go, e.g. --results results/demo");

  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESETHAND;  // a second Ctrl-C ends the sweep at once, which is safe too
  for (int s : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(s, &action, nullptr);
  if (a.suggest.asked()) {
    const int code = suggest_trials(
        a.suggest, matrix, {.results = a.results, .machine = a.machine, .json = a.json, .stop = &g_stop},
        [&](const Matrix& part) { return execute(a, part, sweep, matrix); });
    return g_stop != 0 ? 128 + g_stop : code;
  }
  const SweepOutcome outcome = execute(a, matrix, sweep, matrix);
  const std::string text =
      a.json ? show(summary_json(matrix, outcome, sweep, a.results)) : summary_table(matrix, outcome);
  std::fputs(text.c_str(), stdout);
  if (outcome.interrupted) return 128 + g_stop;
  return outcome.complete() ? 0 : 1;
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  a->trainer = std::filesystem::read_symlink("/proc/self/exe").string();
  CLI::App* sweep = app.add_subcommand("sweep", "Runs every trial of a matrix; safe to kill and rerun");
  sweep->footer(kHelp);
  sweep->add_option("SWEEP", a->file, "Sweep file (YAML)")->required();
  sweep->add_option("--results", a->results, "Directory of the results; made when it is missing");
  sweep->add_flag("--dry-run", a->dry_run, "Print the matrix and what is skipped; run nothing");
  sweep->add_flag("--json", a->json, "Print JSON on stdout instead of tables");
  sweep->add_flag("--retry-failed", a->retry_failed, "Run complete trials that are not ok again");
  sweep->add_option("--machine", a->machine, "Machine file (isobar calibrate), for suggestions");
  add_suggest_options(*sweep, a->suggest);
  sweep->callback([a] {
    if (const int code = run(*a); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace isobar
