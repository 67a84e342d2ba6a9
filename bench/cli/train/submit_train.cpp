#include "bench/cli/train/submit_train.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "bench/cli/train/stop_flag.h"
#include "bench/cli/words/options.h"
#include "bench/cluster/preview.h"
#include "bench/cluster/submit.h"
#include "bench/suggest/trial_forecast.h"
#include "bench/sweep/results/summary.h"
#include "model/base/error.h"
#include "model/base/system/program.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/yaml.h"
#include "model/data/choice/sample_order.h"
#include "model/engine/processor.h"
#include "model/nets/build.h"

namespace isobar::cli {
namespace {

using nlohmann::json;

RunSpec spec_of(const SubmittedTraining& a) {
  RunSpec spec = load_run_spec(a.config, a.set);
  if (!spec.run.out.empty())
    throw ConfigError(a.config, "run.out", "is chosen by --results: DIR/trials/ID", "leave it out");
  if (!spec.run.command.empty()) {
    if (spec.run.resume.empty())
      throw ConfigError(a.config, "run.resume",
                        "is missing: what a job's time limit cuts off could not go on in the next one",
                        "e.g. run.resume: \"--resume {checkpoint}\" and run.checkpoint: \"ckpt/step-*.pt\"");
    return spec;
  }
  if (spec.train.checkpoint_every == 0)
    throw ConfigError(a.config, "train.checkpoint_every",
                      "is 0: what a job's time limit cuts off could not go on in the next one",
                      "e.g. --set train.checkpoint_every=500");
  if (spec.net.words() || spec.net.recorded()) nets::require_kernels(spec, nets::build_plan(spec, 0, {}));
  return data::with_epochs_apart(spec);
}

sweep::Matrix matrix_of(RunSpec spec) {
  sweep::Matrix m;
  const std::string id = sweep::trial_id(spec, 0);
  m.trials.push_back({.id = id, .spec = std::move(spec), .axes = {}});
  return m;
}

void refuse_infeasible(const sweep::Trial& t, const SubmittedTraining& a) {
  if (t.forecast && !t.forecast->infeasible.empty())
    throw ConfigError(a.config, "", "is predicted not to run on " + a.machine + ": " + t.forecast->infeasible,
                      "see isobar predict " + a.config + " --machine " + a.machine);
}

// Two trainings in one directory would be reported as one.
void refuse_another(const std::string& results, const sweep::Trial& t) {
  const std::filesystem::path file = std::filesystem::path(results) / "sweep.json";
  const json known = json_if_there(file);
  if (!known.is_object() || !known.value("trials", json()).is_array()) return;
  for (const json& one : known["trials"])
    if (!one.is_object() || one.value("id", json()) != json(t.id))
      throw ConfigError(results, "--results",
                        "holds other trials, or this training with other settings (" + file.string() + ")",
                        "give this one a directory of its own, or the settings that it began with");
}

void announce(const sweep::Trial& t, const cluster::ClusterSpec& c, const std::string& results) {
  const auto steps = static_cast<double>(t.spec.train.steps);
  const int64_t nodes = c.nodes(t.ranks());
  if (!t.forecast) {
    std::printf("%lld ranks on %lld node%s; jobs of %.3g h at the most\n%s\n",
                static_cast<long long>(t.ranks()), static_cast<long long>(nodes), nodes == 1 ? "" : "s",
                c.max_time_s / 3600, (std::filesystem::path(results) / "trials" / t.id).c_str());
    std::fflush(stdout);
    return;
  }
  std::printf(
      "%lld ranks on %lld node%s; %lld steps of %.3g s (up to %.3g), %.3g h as predicted; jobs of %.3g h"
      " at the most\n%s\n",
      static_cast<long long>(t.ranks()), static_cast<long long>(nodes), nodes == 1 ? "" : "s",
      static_cast<long long>(t.spec.train.steps), t.forecast->step_s, t.forecast->upper_s,
      t.forecast->step_s * steps / 3600, c.max_time_s / 3600,
      (std::filesystem::path(results) / "trials" / t.id).c_str());
  std::fflush(stdout);
}

}  // namespace

namespace {

// The limit of a queue, where its file gives one, stands above a person's.
void bound_time(cluster::ClusterSpec& c, const std::string& time) {
  const std::optional<int64_t> seconds = cluster::seconds_of_limit(time);
  if (!seconds)
    throw ConfigError("-t " + time, "", "is no time limit", "write HH:MM:SS, or D-HH:MM:SS for days");
  if (c.scheduler == "pbs" && time.find_first_of(":-") == std::string::npos)
    throw ConfigError("-t " + time, "", "is minutes to Slurm and seconds to PBS", "write HH:MM:SS");
  const auto limit = static_cast<double>(*seconds);
  const json section = load_yaml(c.file).at("cluster");
  if (section.contains("max_time_s") && limit > c.max_time_s)
    throw ConfigError("-t " + time, "",
                      "is more than a job may take there: cluster.max_time_s of " + c.file + " is " +
                          std::to_string(std::llround(c.max_time_s)),
                      "ask for " + cluster::hours(std::llround(c.max_time_s)) + " at the most");
  if (limit < c.min_time_s || limit < 10)
    throw ConfigError(
        "-t " + time, "",
        "is less than a job takes there, " + cluster::hours(std::llround(std::max(10.0, c.min_time_s))),
        "ask for more");
  c.max_time_s = c.job_time_s = limit;
}

}  // namespace

cluster::ClusterSpec cluster_of(const std::string& command, const std::string& launcher,
                                const std::string& machine, const std::string& time) {
  if (machine.empty())
    throw ConfigError(command, "--machine", "is missing",
                      "name a machine file with a `cluster:` section that says how jobs are submitted");
  cluster::ClusterSpec c = cluster::load_cluster(machine);
  if (c.scheduler != launcher)
    throw ConfigError(machine, "cluster.scheduler", "is " + c.scheduler + ", and --launcher says " + launcher,
                      "give the same to both");
  if (!time.empty()) bound_time(c, time);
  return c;
}

int submit_training(const SubmittedTraining& a) {
  if (a.results.empty())
    throw ConfigError("isobar train", "--results", "is missing",
                      "say where jobs and results go, e.g. --results runs/first");
  const cluster::ClusterSpec cluster = cluster_of("isobar train", a.launcher, a.machine, a.time);
  sweep::Matrix m = matrix_of(spec_of(a));
  sweep::SweepSpec sweep;
  sweep.file = sweep.base = a.config;
  sweep.about = a.about;
  sweep.probe_infeasible = 1;  // misfits are refused here, with an error meant for a single training
  suggest::forecast(m, sweep, perf::load_machine(a.machine), cluster.ranks_per_node);
  refuse_infeasible(m.trials[0], a);
  refuse_another(a.results, m.trials[0]);
  if (!a.json) announce(m.trials[0], cluster, a.results);
  const std::string self = own_program().string();
  const sweep::SweepOptions options{.results = a.results,
                                    .trainer = self,
                                    .rank_output = a.rank_output,
                                    .self = self,
                                    .progress = !a.json,
                                    .stop = &stop_flag()};
  const auto scheduler = cluster::scheduler_of(cluster.scheduler);
  if (a.dry_run) {
    const json shown = cluster::preview_json(m, sweep, options, cluster, *scheduler);
    std::fputs(a.json ? (shown.dump(1) + "\n").c_str() : cluster::preview_text(shown).c_str(), stdout);
    return 0;
  }

  // A second Ctrl-C leaves at once, which loses nothing: the jobs go on.
  catch_signals({SIGINT, SIGTERM, SIGHUP}, SA_RESETHAND);
  const sweep::SweepOutcome o = cluster::run_on_cluster(m, sweep, options, cluster, *scheduler, !a.no_wait);
  const std::string text = a.json ? sweep::summary_json(m, o, sweep, a.results, kStatistic)
                                            .dump(1, ' ', false, json::error_handler_t::replace) +
                                        "\n"
                                  : sweep::summary_table(m, o, kStatistic);
  std::fputs(text.c_str(), stdout);
  if (o.interrupted) return 128 + stop_flag();
  const records::RunRecord& r = o.runs.at(0);
  if (r.complete && r.run_class != records::RunClass::ok)
    std::fprintf(stderr, "isobar: the training ended as %s: %s\n", records::name_of(r.run_class),
                 r.message.c_str());
  return r.complete ? exit_code_of(records::name_of(r.run_class)) : 1;
}

}  // namespace isobar::cli
