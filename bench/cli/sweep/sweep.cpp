// isobar sweep: the command line of bench/sweep.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "bench/cli/commands.h"
#include "bench/cli/sweep/sweep_suggest.h"
#include "bench/cli/train/stop_flag.h"
#include "bench/cli/train/submit_train.h"
#include "bench/cli/words/options.h"
#include "bench/cluster/grouping.h"
#include "bench/cluster/pilot.h"
#include "bench/cluster/preview.h"
#include "bench/cluster/submit.h"
#include "bench/guest/command.h"
#include "bench/ranks/rank_output.h"
#include "bench/suggest/trial_forecast.h"
#include "bench/sweep/compose.h"
#include "bench/sweep/results/repeats.h"
#include "bench/sweep/results/summary.h"
#include "bench/sweep/run/runner.h"
#include "model/base/error.h"
#include "model/base/system/program.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/step/engine_prices.h"

namespace isobar::cli {
namespace {

constexpr const char* kSweepHelp = R"(Runs every trial of a matrix, each in a process of its own.

A sweep file names a run configuration and what to vary:

  base: ../models/vit-tiny.yaml      # relative to this file
  set: {train.global_batch: 8}       # fixed for all trials
  steps: 12                          # optimizer steps of a trial
  warmup: 2                          # of them, left out of the statistics
  axes:                              # every combination is a trial
    gpus: [1, 2]                     # world size; dp = gpus / (tp * cp * pp)
    tp: any                          # every divisor of the world sizes; so do cp and pp; gpus: any within constraints
    policy.amp: [none, bf16]         # any key of a run configuration
    data.workers: [0, 2]
  include: [{gpus: 2, policy.bucket_mb: 1}]       # combinations besides
  when: [{if: amp == bf16, axes: {policy.bucket_mb: [1, 4]}}]   # axes of the combinations that meet a condition
  exclude: [{gpus: 2, data.workers: [1, 2]}, {tp: ">= 4", amp: none}, tp * pp > 4]   # maps or expressions
  constraints: {max_ranks: 8}
  zip: [{gpus: [1, 2], policy.micro_batch: [4, 2]}]   # keys that vary together, crossed with the axes
  weak_scaling: [1, 2, 4]            # instead of gpus: fixed batch per rank; strong_scaling: fixed global batch
  baselines: [{gpus: 1, policy.amp: none}]        # what reports compare with
  repetitions: 3                     # interleaved, not back to back
  order: random                      # or listed;  seed: 0
  timeout_s: 600                     # per trial;  hang_s: 120, memory_limit_mb: 8000, grace_s: 5

  machine: ../machines/local.yaml    # forecasts; or a shipped one's name; or --machine
  probe_infeasible: 0.02             # share of the trials forecast not to fit that run anyway
  noise_limit: 0.3                   # (p90 - p10) / median of the steps above which a run counts as noisy
  repeat_contended: 1                # repeats of a trial whose steps scatter by more than 15 % and 3 times as
                                     # much as those of comparable trials, or that ran on distant cores
                                     # (0: none); both results are kept

The same on the command line, over a run configuration, or over a sweep file whose keys it then overrides:
  isobar sweep configs/models/vit-demo.yaml gpus=1,2 amp=none,bf16 steps=12 --repeat 3 --results results/amp
Several values make an axis, a single one is set for all trials; --print prints the composed sweep file.

An invalid value is an error. A combination that the net does not support is skipped; each reason is printed with the
first such combination and their number (--json lists all). A sweep has up to 200,000 combinations and 100,000
trials. With a machine file every trial has a forecast: --dry-run prints time, memory and cost; a trial that does not
fit in memory is skipped, and a measurement above the machine's peaks is recorded as implausible. --dry-run --engine
nemo forecasts them for other software, which Isobar cannot run.

Stop it with Ctrl-C or kill it at any moment: the same command continues, runs no finished trial again and keeps the
files of an unfinished one. A trial that crashes, hangs or runs out of memory is recorded as such:
  ok  bad_config  oom_host  oom_device  timeout  hang  crash  assertion  numeric  wrong_result  noisy  implausible
  launch_fail  node_fail  preempted  interrupted
The last four are tried again by the next sweep, the other failures only with --retry-failed.

On a cluster (--launcher slurm or pbs; the machine file's `cluster:` section says how, see bench/cluster/cluster.h)
trials are grouped by the nodes they need into jobs that run many of them, one after the other. The command follows the
jobs and resubmits trials that a lost node, a preemption or a time limit interrupted: a trial with train.checkpoint_every
resumes from its last checkpoint, another restarts. The command may be stopped: the jobs continue, and the same command
follows them again. Several sweeps may share a results directory. Cancelled jobs stay cancelled until the command is
repeated.

A sweep need not run all of its trials. With a machine file (isobar calibrate), --suggest N names the N trials that
would lower the expected regret most: the expected loss of the layout that looks best now against the best one. It
fits the machine to the results in DIR, prints each trial with its predicted time, its probability of being the best
and the regret it is expected to remove, and runs nothing; --run runs them. --until 'regret<2%' repeats this in rounds
of N (4), with a new fit each, until the expected regret is below the bound, every trial is measured, or DIR has
--max-trials. It can be killed and resumed like any sweep. --rehearse S replays a finished sweep with S seeds, and
prints how many trials the suggestions need, and a random order.

Results: DIR/trials/<id>/result.jsonl (every measurement), DIR/index.sqlite (tables runs, ops and steps, made from
them), DIR/sweep.json (the matrix), DIR/jobs/<name>/ (a cluster's jobs).
Exit codes: 0 every trial has its verdict, ok or not; 1 some have none yet (--no-wait, cancelled jobs, faults of
the infrastructure); 2 bad configuration; 130 stopped by Ctrl-C, 143 by SIGTERM. With --suggest --run the same for the
suggested trials; without --run 0. With --until 0 the bound is reached, or every trial was run; 1 neither: --max-trials
came first, nothing more could be launched, a suggested trial has no verdict, or no trial at all could be measured.

Examples:
  isobar sweep configs/sweeps/demo.yaml --dry-run
  isobar sweep configs/sweeps/demo.yaml --results results/demo
  isobar sweep configs/sweeps/demo.yaml --results results/demo --machine results/machine.yaml --suggest 4
  isobar sweep configs/sweeps/demo.yaml --results results/demo --machine results/machine.yaml --until 'regret<2%'
  isobar sweep configs/models/llama3-8b.yaml gpus=64 tp=1,2,4,8 --dry-run --machine dgx-h100 --engine nemo
  isobar sweep configs/sweeps/demo.yaml --results results/demo --launcher slurm --machine mine.yaml
  sqlite3 results/demo/index.sqlite "SELECT ranks, policy_amp, step_s_median FROM runs WHERE class = 'ok'")";

struct SweepArguments {
  std::vector<std::string> words;  // KEY=VALUES
  int64_t repeat = 0;
  std::string file, results, trainer, self, machine, launcher = "local", rank_output = "first", after, job,
                                                     time;
  perf::EngineQuestion engine{"isobar", {}, {}};
  SuggestArguments suggest;
  About about;
  bool print = false, dry_run = false, json = false, retry_failed = false, no_wait = false, cancel = false;
};

std::string show(const nlohmann::json& j) {  // paths may not be UTF-8
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

sweep::SweepOptions options_of(const SweepArguments& a, const sweep::Matrix* whole) {
  return {.results = a.results,
          .trainer = a.trainer,
          .rank_output = a.rank_output,
          .self = a.self,
          .retry_failed = a.retry_failed,
          .whole = whole,
          .stop = &stop_flag()};
}

void show_dry_run(const SweepArguments& a, const sweep::Matrix& matrix, const sweep::SweepSpec& sweep,
                  const std::optional<cluster::ClusterSpec>& cluster) {
  nlohmann::json jobs;
  if (cluster)
    jobs = cluster::preview_json(matrix, sweep, options_of(a, nullptr), *cluster,
                                 *cluster::scheduler_of(cluster->scheduler), a.after);
  std::string text = sweep::dry_run_table(matrix) + (cluster ? "\n" + cluster::preview_text(jobs) : "");
  if (a.json) {
    nlohmann::json j = sweep::dry_run_json(matrix, sweep);
    if (cluster) j["cluster"] = jobs;
    text = show(j);
  }
  std::fputs(text.c_str(), stdout);
}

// Runs `part` of the sweep's matrix, or all of it; repetitions of contended trials are added to `whole`.
sweep::SweepOutcome execute(const SweepArguments& a, const sweep::Matrix& part, const sweep::SweepSpec& sweep,
                            sweep::Matrix& whole, const std::optional<cluster::ClusterSpec>& cluster) {
  const sweep::SweepOptions options = options_of(a, &whole);
  return sweep::run_with_repeats(whole, part, sweep, [&](const sweep::Matrix& m) {
    if (cluster)
      return cluster::run_on_cluster(m, sweep, options, *cluster, *cluster::scheduler_of(cluster->scheduler),
                                     !a.no_wait, a.after);
    return sweep::run_sweep(m, sweep, options, *sweep::local_launcher());
  });
}

// Every setting that a sweep of somebody's program varies reaches its command, in one trial at least: options
// like the kind of context parallelism are of some layouts only.
void require_words(const sweep::Matrix& matrix, const std::string& file) {
  std::set<std::string> reach;
  std::map<std::string, const sweep::Trial*> missed;
  for (const sweep::Trial& t : matrix.trials) {
    if (t.spec.run.command.empty()) continue;
    guest::guest_command(t.spec, {});  // refuses words that are none before anything runs
    for (const auto& [key, value] : t.axes) {
      if (key != guest::kBatchKey && reach.contains(key)) continue;
      if (guest::reaches_command(key, t.spec))
        reach.insert(key);
      else
        missed.emplace(key, &t);
    }
  }
  // Samples a step must be right in all trials: rates are of them.
  for (const auto& [key, trial] : missed)
    if (key == guest::kBatchKey || !reach.contains(key)) guest::require_word_for(key, trial->spec, file);
}

// The modes of a sweep: run, suggest, rehearse, dry run, cancel. An option that the chosen mode does not read
// is refused.
void refuse_contradictions(const SweepArguments& a, const CLI::App& command) {
  const bool local = a.launcher == "local", suggests = a.suggest.asked();
  const bool runs = !a.dry_run && !a.print && !a.cancel && a.suggest.rehearse == 0 &&
                    (!suggests || a.suggest.run || !a.suggest.until.empty());
  const std::string cluster = "is for a cluster's jobs", add = "add --launcher slurm or pbs";
  const std::string none = "is for trials that run, and nothing runs here", leave = "leave it out";
  const std::string whole = "goes with no suggestions", choose = "keep one of the two";
  refuse_unused(
      command,
      {{"--no-wait", local, cluster, add},
       {"--after", local, cluster, add},
       {"--time", local, cluster, add},
       {"--cancel", local, cluster, add},
       {"--no-wait", !a.suggest.until.empty(), "cannot go with --until, whose rounds wait for results",
        "leave out one of them; --suggest N --run --no-wait submits one round"},
       {"--dry-run", suggests || a.cancel, suggests ? whole : "cannot go with --cancel", choose},
       {"--cancel", suggests, whole, choose},
       {"--print", a.dry_run || suggests || a.cancel, "shows the file, and does nothing else", choose},
       {"--json", a.print, "is not for --print, which writes YAML", choose},
       {"--no-wait", !runs, none, leave},
       {"--after", !runs && (local || !a.dry_run), none, leave},
       {"--retry-failed", !runs && (local || !a.dry_run), none, leave},
       {"--rank-output", !runs, none, leave},
       {"--engine", !a.dry_run, "is of trials that do not run here", "add --dry-run"},
       {"--tuned", a.engine.engine == "isobar", "is of other engines", "name one with --engine"},
       {"--launcher", a.engine.engine != "isobar", "is of trials that run, which another engine's do not",
        leave},
       {"--name", !runs, none, leave},
       {"--tag", !runs, none, leave},
       {"--note", !runs, none, leave},
       {"--run", a.suggest.rehearse > 0, "cannot go with --rehearse, which runs nothing", choose},
       {"--max-trials", !suggests, "is of suggestions", "add --until 'regret<2%'"},
       {"--statistic", !suggests, "is of suggestions", "add --suggest N"},
       {"--suggest-seed", !suggests, "is of suggestions", "add --suggest N"}});
}

int start_sweep(const SweepArguments& a, const CLI::App& command) {
  refuse_contradictions(a, command);
  sweep::SweepSpec sweep = sweep::load_sweep_spec(a.file, a.words);
  sweep.about = a.about.json();
  if (a.print) {
    const std::string here = std::filesystem::current_path().string();
    std::fputs(sweep::sweep_file_text(sweep::compose_sweep(a.file, a.words), a.file, here).c_str(), stdout);
    return 0;
  }
  const std::string machine =
      a.machine.empty() ? perf::machine_file(sweep.machine, sweep.file + ", machine") : a.machine;
  std::optional<cluster::ClusterSpec> cluster;
  if (a.launcher != "local") cluster = cluster_of("isobar sweep", a.launcher, machine, a.time);
  sweep::Matrix matrix = sweep::expand(sweep, !a.json);
  require_words(matrix, sweep.file);
  if (a.engine.engine != "isobar") {
    if (suggest::are_by_settings(matrix))
      throw ConfigError(sweep.file, "net", "is missing, and --engine prices nets",
                        "describe it under `net:`");
    if (machine.empty())
      throw ConfigError("isobar sweep", "--machine", "is missing: --engine prices runs on a machine",
                        "name one like dgx-h100");
    if (const perf::ForeignEngine* e = a.engine.of_plans(); e && !matrix.trials.empty()) {
      for (sweep::Trial& t : matrix.trials) t.spec.run.device = RunDevice::automatic;  // the machine file's
      suggest::forecast(
          matrix, sweep,
          perf::run_by(*e, perf::load_machine(machine), matrix.trials.front().spec.net.recorded()), 0,
          !a.json);
    } else {
      suggest::forecast(matrix, sweep, perf::load_machine(machine), a.engine);
    }
  } else if (!machine.empty())
    suggest::forecast(matrix, sweep, perf::load_machine(machine), cluster ? cluster->ranks_per_node : 0,
                      !a.json);
  if (cluster && !a.time.empty()) cluster::bound_limits(sweep.limits, matrix.trials, *cluster);
  if (a.results.empty() && !a.dry_run)
    throw ConfigError("isobar sweep", "--results", "is missing",
                      "say where results go, e.g. --results results/demo");
  if (a.dry_run) {
    show_dry_run(a, matrix, sweep, a.results.empty() ? std::nullopt : cluster);  // jobs are of what is left
    return 0;
  }
  if (a.cancel) {
    std::printf("%d jobs cancelled\n",
                cluster::cancel_jobs(a.results, *cluster::scheduler_of(cluster->scheduler)));
    return 0;
  }

  // A second Ctrl-C ends the sweep at once, which loses nothing.
  catch_signals({SIGINT, SIGTERM, SIGHUP}, SA_RESETHAND);
  sweep::Matrix whole = matrix;  // gets the repeats
  if (a.suggest.asked()) {
    const int code = suggest_trials(
        a.suggest, matrix,
        {.results = a.results, .machine = machine, .ranks_per_node = cluster ? cluster->ranks_per_node : 0},
        a.json, &stop_flag(),
        [&](const sweep::Matrix& part) { return execute(a, part, sweep, whole, cluster); });
    return stop_flag() != 0 ? 128 + stop_flag() : code;
  }
  const sweep::SweepOutcome outcome = execute(a, matrix, sweep, whole, cluster);
  const Statistic s = a.suggest.statistic;
  const std::string text = a.json ? show(sweep::summary_json(whole, outcome, sweep, a.results, s))
                                  : sweep::summary_table(whole, outcome, s);
  std::fputs(text.c_str(), stdout);
  if (!a.json && outcome.complete())
    std::printf("next: isobar report %s -o %s/report\n", a.results.c_str(), a.results.c_str());
  if (outcome.interrupted) return 128 + stop_flag();
  return outcome.complete() ? 0 : 1;
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  auto a = std::make_shared<SweepArguments>();
  a->self = a->trainer = own_program().string();
  CLI::App* sweep = app.add_subcommand("sweep", "Run every trial of a matrix; safe to kill and rerun");
  sweep->footer(kSweepHelp);
  add_config_option(*sweep, a->file, "SWEEP", "Sweep file, or a run configuration (YAML)")->required();
  sweep->add_option("KEY=VALUES", a->words, "Axes and settings that override the file's: tp=1,2,4 amp=bf16");
  sweep->add_option("--repeat", a->repeat, "Repetitions of each trial")->check(CLI::Range(1, 10000));
  add_about_options(*sweep, a->about);
  sweep->add_flag("--print", a->print, "Print the composed sweep file; run nothing");
  sweep->add_option("--results", a->results, "Directory of the results; made when it is missing");
  sweep->add_flag("--dry-run", a->dry_run,
                  "Print the matrix, what is skipped, and with --launcher jobs and scripts; run nothing");
  sweep->add_option("--launcher", a->launcher, "local, slurm or pbs")
      ->check(CLI::IsMember({"local", "slurm", "pbs"}))
      ->capture_default_str();
  add_machine_option(*sweep, a->machine,
                     "Machine file: forecasts, suggestions, and its `cluster:` section for a launcher");
  sweep->add_option("--engine", a->engine.engine, "Software that --dry-run forecasts (isobar predict --help)")
      ->capture_default_str();
  sweep->add_option("--tuned", a->engine.tuned, "How well tuned it is: 0 research code … 1 MLPerf")
      ->check(number_in(0, 1));
  add_rank_output_option(*sweep, a->rank_output, "the trial's folder/ranks");
  add_time_option(*sweep, a->time);
  sweep->add_flag("--no-wait", a->no_wait, "Submit the jobs that can be submitted now, and return");
  sweep->add_option("--after", a->after, "Submitted jobs start when the job of this id has ended");
  sweep->add_flag("--cancel", a->cancel, "Cancel the jobs of --results");
  sweep->add_option("--trainer", a->trainer)->group("");  // a stand-in, for tests
  sweep->add_flag("--json", a->json, "Print JSON on stdout instead of tables");
  sweep->add_flag("--retry-failed", a->retry_failed, "Run trials again that ended with a failure");
  add_suggest_options(*sweep, a->suggest);
  sweep->callback([a, sweep] {
    if (a->repeat > 0) a->words.push_back("repetitions=" + std::to_string(a->repeat));
    if (const int code = start_sweep(*a, *sweep); code != 0) throw ExitCode{code};
  });

  CLI::App* job = app.add_subcommand("sweep-job", "What a cluster's job runs")->group("");
  job->add_option("DIR", a->results)->required();
  job->add_option("NAME", a->job)->required();
  job->callback([a] {
    catch_signals({SIGUSR1, SIGTERM, SIGINT, SIGHUP}, 0);
    if (const int code = cluster::run_pilot(a->results, a->job, &stop_flag()); code != 0)
      throw ExitCode{code};
  });
}

}  // namespace isobar::cli
