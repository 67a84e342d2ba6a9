#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "bench/cli/commands.h"
#include "bench/cli/train/last_words.h"
#include "bench/cli/train/stop_flag.h"
#include "bench/cli/train/submit_train.h"
#include "bench/cli/train/train_arguments.h"
#include "bench/cli/train/train_by_command.h"
#include "bench/cli/words/options.h"
#include "bench/guest/command.h"
#include "bench/ranks/mpiexec.h"
#include "bench/ranks/rank_output.h"
#include "bench/ranks/run_ranks.h"
#include "bench/sweep/run/classify.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/comm/launcher.h"
#include "model/data/choice/sample_order.h"
#include "model/data/files/foreign.h"
#include "model/engine/liveness/signals.h"
#include "model/engine/liveness/start.h"
#include "model/engine/processor.h"
#include "model/engine/train.h"
#include "model/inference/arena.h"
#include "model/nets/build.h"
#include "model/records/results.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/step/utilization.h"

namespace isobar::cli {
namespace {

/// The --json output of a failed training: one object, as after success.
void print_failure(const std::string& run_class, const std::string& message) {
  const nlohmann::json j = {{"status", "failed"}, {"class", run_class}, {"message", message}};
  std::printf("%s\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

/// The failure of ranks that ended with `code`: the record that one wrote into `results` after the first
/// `known` bytes, else the code.
void print_failure_of_ranks(int code, const std::filesystem::path& results, uintmax_t known) {
  std::error_code none;
  const bool wrote = !results.empty() && std::filesystem::file_size(results, none) > known && !none;
  const records::ResultTail tail = wrote ? records::read_tail(results) : records::ResultTail{};
  if (tail.ended && tail.status != "ok") return print_failure(tail.failure, tail.message);
  const std::string said = "ended with exit code " + std::to_string(code) + "; its error output says why";
  print_failure(
      records::name_of(
          sweep::classify({.end = sweep::ProcessEnd::exited, .code = code}, {.started = true}, "").run_class),
      said);
}

/// Runs this command on `ranks` ranks and ends with their exit code.
[[noreturn]] void start_under_mpiexec(const TrainArguments& a, const RunSpec& spec, int64_t ranks) {
  // Refuses a bad spec here, in one line instead of one for each rank.
  nets::build_plan(engine::planned_micro_batch(spec).spec, 0, engine::planned_workspace(spec, 1));
  engine::check_start(data::with_epochs_apart(spec), {a.resume, a.set_aside});
  std::vector<std::string> args = ranks::mpiexec_command(ranks);
  args.emplace_back("train");
  args.push_back(a.config);
  for (const std::string& s : a.set) args.insert(args.end(), {"--set", s});
  if (!a.trace.empty()) args.insert(args.end(), {"--trace", a.trace});
  if (!a.machine.empty()) args.insert(args.end(), {"--machine", a.machine});
  if (!a.resume.empty()) args.insert(args.end(), {"--resume", a.resume});
  if (a.set_aside) args.emplace_back("--set-aside-damaged");
  if (a.json) args.emplace_back("--json");
  for (std::string& word : a.about.words()) args.push_back(std::move(word));
  if (a.rank_output != "first") args.insert(args.end(), {"--rank-output", a.rank_output});
  const std::filesystem::path results = spec.run.out.empty() ? "" : spec.run.out + "/result.jsonl";
  std::error_code none;
  const uintmax_t known = std::filesystem::exists(results, none) ? std::filesystem::file_size(results) : 0;
  const int code = ranks::run_ranks(ranks, std::move(args), spec.run.out);
  if (a.json && code != 0) print_failure_of_ranks(code, results, known);
  throw ExitCode{code};
}

/// Calls `check`. A launched rank returns its error, and reports it once MPI has begun, so that the other
/// ranks end too.
template <class Check>
std::optional<ConfigError> refusal_of(bool launched, const Check& check) {
  try {
    check();
  } catch (const ConfigError& e) {
    if (!launched) throw;
    return e;
  }
  return std::nullopt;
}

/// A child opens the data files first, on one rank of each host, before MPI and threads start
/// (model/data/files/foreign.h).
void require_data_of_host(const RunSpec& spec) {
  if (comm::launched_rank_on_host(::getenv) <= 0) data::require_data(spec);
}

/// Starts the statistics that the ranks will need, in a child of one of them.
std::function<data::Statistics()> begin_statistics(const RunSpec& spec, bool launched) {
  if (comm::launched_rank(::getenv) > 0) return {};
  if (!launched && spec.layout.world() > 1) return {};  // this process only starts the ranks
  const data::SampleShape shape = data::sample_shape(spec);
  return data::needs_statistics(spec.data, shape) ? data::begin_statistics(spec.data, shape)
                                                  : std::function<data::Statistics()>();
}

/// Redirects all further output of this process, if it is a rank. Ranks that it starts later redirect their
/// own.
void begin_output(const TrainArguments& a, const RunSpec& spec, bool launched) {
  if (a.rank_output == "first") return;
  const std::string option = "--rank-output " + a.rank_output;
  if (a.json)
    throw ConfigError(option, "", "is of step lines, and --json prints none", "leave out one of them");
  if (a.rank_output == "files" && spec.run.out.empty())
    throw ConfigError(option, "", "wants a folder, and run.out is empty",
                      "add --set run.out=runs/first, or use --rank-output all");
  if (!launched && (a.ranks > 0 ? a.ranks : spec.layout.world()) > 1) return;
  if (launched && a.rank_output == "files" && (a.fresh || names_a_pattern(spec.run.out)))
    throw ConfigError(option, "", "writes before ranks of a launcher agree on the number of their run",
                      "give run.out the name of a directory");
  const int rank = launched ? comm::launched_rank(::getenv) : 0;
  if (rank < 0)
    throw ConfigError(option, "", "needs to know the rank before MPI begins, and this launcher says none",
                      "leave it out, and use the launcher's own (mpiexec --tag-output, srun --label)");
  ranks::begin_rank_output(a.rank_output, rank, spec.run.out);
}

void refuse_contradictions(const TrainArguments& a, const CLI::App& command) {
  const bool local = a.launcher == "local";
  const std::string jobs = "is for a cluster's jobs", add = "add --launcher slurm or pbs";
  refuse_unused(
      command,
      {{"--results", local, jobs, add},
       {"--no-wait", local, jobs, add},
       {"--time", local, jobs, add},
       {"--dry-run", local, jobs, add + "; isobar plan shows what a rank would do"},
       {"--no-wait", a.dry_run, "is of a training that is submitted", "leave out one of the two"},
       {"--trace", !local, "is of a run that is not cut into jobs", "leave it out"},
       {"--resume", !local, "is what jobs do by themselves, from the last checkpoint in --results",
        "leave it out"},
       {"--new", !local, "is of run.out, and jobs have their runs in --results", "leave it out"},
       {"--fit", !local, "is of a run that is not cut into jobs", "leave it out"},
       {"--set-aside-damaged", a.resume.empty(), "is of --resume RUN", "leave it out, or add --resume RUN"}});
}

void submit_jobs(TrainArguments a, const Submit& submit) {
  if (comm::Mpi::started_by_launcher())
    throw ConfigError("--launcher", "", "submits a training, and this process is one of several ranks",
                      "give the command once, without mpiexec and srun");
  const std::vector<std::string> given = a.set;
  if (a.ranks > 0) take_ranks(a, loaded(a).layout);
  if (const RunSpec spec = loaded(a); !spec.run.command.empty()) {
    require_words_for(given, a, spec);
    guest::guest_command(spec, {});  // refuses words that are none
  }
  const int code = submit({.config = a.config,
                           .set = a.set,
                           .launcher = a.launcher,
                           .machine = a.machine,
                           .results = a.results,
                           .rank_output = a.rank_output,
                           .time = a.time,
                           .about = a.about.json(),
                           .no_wait = a.no_wait,
                           .dry_run = a.dry_run,
                           .json = a.json});
  if (code != 0) throw ExitCode{code};
}

void require_kernels_of_words(const RunSpec& spec) {
  if (spec.net.words()) nets::require_kernels(spec, nets::build_plan(spec, 0, {}));
}

/// Reports a failure of this rank: a line on standard error, an object if `json`. Returns the exit code.
int report_failure(const std::exception& e, const comm::Mpi& mpi, bool json) {
  const std::string failure = engine::class_of(e), rank = "rank " + std::to_string(mpi.rank()) + ": ";
  const int code = exit_code_of(failure);
  const bool named =
      code != 4 || dynamic_cast<const inference::OutOfMemory*>(&e);  // else what() is "std::bad_alloc"
  const std::string where = code == 2 ? "" : code == 4 && named ? rank + "out of memory: " : rank;
  const auto* path = dynamic_cast<const std::filesystem::filesystem_error*>(&e);
  const std::string what = path ? path_error_text(*path) : named ? e.what() : out_of_memory_text();
  std::fprintf(stderr, "isobar: %s%s\n", where.c_str(), what.c_str());
  if (json) print_failure(failure, what);
  return code;
}

/// The run fails as a whole: no rank waits for a dead one.
[[noreturn]] void end_all_ranks(const comm::Mpi& mpi, int code) {
  ranks::settle_rank_output();
  mpi.abort(code);
}

/// FLOP/s that the machine, if any, gives one rank of this run.
double peak_of_rank(const std::optional<perf::Machine>& m, const RunSpec& spec, const comm::Mpi& mpi) {
  if (!m) return 0;
  const perf::HostShare share{mpi.ranks_on_host(), engine::threads_per_rank(spec, mpi)};
  return perf::peak_flops(*m, perf::conditions_of(spec, *m, share), perf::peak_of(spec));
}

/// Rank 0 says what the machine, if any, predicts.
std::optional<records::ExpectedStep> expected_here(const std::optional<perf::Machine>& m, const RunSpec& spec,
                                                   const comm::Mpi& mpi) {
  if (!m || mpi.rank() != 0) return std::nullopt;
  return expected_on(*m, spec, {mpi.ranks_on_host(), engine::threads_per_rank(spec, mpi)});
}

/// Trains on this rank, one of all that the layout asks for.
void train_here(const TrainArguments& a, const RunSpec& spec, const std::optional<ConfigError>& refused,
                const std::function<data::Statistics()>& statistics,
                const std::optional<perf::Machine>& machine, const comm::Mpi& mpi) {
  // Ranks that `isobar train` has started leave the final report to it.
  const bool json = a.json && !std::getenv(engine::StopSignals::kStartedByTrain);
  if (refused) end_all_ranks(mpi, report_failure(*refused, mpi, json));
  mpi.barrier();  // no rank opens data that another one refused
  int code = 1;
  records::EndRecord end;
  try {
    end = engine::train(spec,
                        {.trace = a.trace,
                         .resume = a.resume,
                         .set_aside = a.set_aside,
                         .about = a.about.json(),
                         .quiet = a.json,
                         .peak_flops = peak_of_rank(machine, spec, mpi),
                         .expected = expected_here(machine, spec, mpi),
                         .every_rank = a.rank_output != "first",
                         .statistics = statistics,
                         .begins = ranks::keep_rank_output,
                         .failed = [&](const std::exception& e) { code = report_failure(e, mpi, json); }},
                        mpi);
  } catch (const engine::Interrupted& e) {  // all ranks stopped together: each leaves by itself
    if (mpi.rank() == 0) std::fprintf(stderr, "isobar: %s\n", e.what());
    if (mpi.rank() == 0 && json) print_failure(engine::class_of(e), e.what());
    throw ExitCode{128 + e.signal};
  } catch (const std::exception&) {  // train() has called `failed`
    end_all_ranks(mpi, code);
  }
  nlohmann::json j = records::to_json(end);
  j["out"] = spec.run.out;
  if (a.json && mpi.rank() == 0) std::printf("%s\n", json_text(j).c_str());
}

/// Ranks of a launcher: the first one names the run.
std::optional<ConfigError> name_run_of_all(TrainArguments& a, RunSpec& spec, std::optional<RunFolder>& folder,
                                           const comm::Mpi& mpi) {
  if (!a.fresh && !names_a_pattern(spec.run.out)) return std::nullopt;
  std::optional<ConfigError> refused;
  if (mpi.rank() == 0) refused = refusal_of(true, [&] { name_run(a, spec, folder); });
  const std::string out = mpi.from_first(refused ? "" : spec.run.out);
  if (out.empty() && !refused)
    refused.emplace(spec.file, "run.out", "was refused by rank 0", "see its error");
  if (!out.empty() && mpi.rank() > 0) a.set.push_back("run.out=" + out), spec.run.out = out;
  return refused;
}

void refuse_words_of_commands(const RunSpec& spec) {
  const RunOptions& r = spec.run;
  if (!r.command.empty()) return;
  for (const auto& [given, key] : {std::pair{r.reads != RunOptions().reads, "run.reads"},
                                   {!r.engine.empty(), "run.engine"},
                                   {!r.resume.empty(), "run.resume"},
                                   {!r.checkpoint.empty(), "run.checkpoint"},
                                   {r.by_settings, "run.by_settings"}})
    if (given)
      throw ConfigError(spec.file, key, "is of run.command, which is not set",
                        "leave it out, or set run.command");
}

void run_train(TrainArguments a, const CLI::App& command, const Submit& submit) {
  if (a.launcher != "local") return submit_jobs(std::move(a), submit);
  const bool launched = comm::launch_of(::getenv).started();
  std::optional<RunSpec> spec;
  const std::optional<ConfigError> bad_spec = refusal_of(launched, [&] {
    spec = loaded(a);
    refuse_words_of_commands(*spec);
    if (spec->run.command.empty() && spec->net.recorded()) nets::require_kernels(*spec, {});
  });
  if (!bad_spec && !spec->run.command.empty()) return train_by_command(std::move(a), command);
  refuse_unused(command,
                {{"--fit", true, "is of a run.command without a net", "leave it out, or give --machine"}});
  comm::Mpi::started_by_launcher();  // refuses processes that MPI cannot join
  // A folder that cannot be made is reported before the training, not after it.
  if (const auto folder = std::filesystem::path(a.trace).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder);
  std::optional<RunFolder> folder;
  if (!bad_spec && !launched) name_run(a, *spec, folder);
  if (!bad_spec) begin_output(a, *spec, launched);
  std::optional<ConfigError> refused = bad_spec;
  if (!refused) refused = refusal_of(launched, [&] { require_data_of_host(*spec); });
  if (a.ranks > 0 && !launched) {
    take_ranks(a, spec->layout);
    spec = loaded(a);
    require_kernels_of_words(*spec);
    if (a.ranks > 1) start_under_mpiexec(a, *spec, a.ranks);
  }
  std::optional<perf::Machine> machine;
  if (!refused && !a.machine.empty())
    refused = refusal_of(launched, [&] { machine = perf::load_machine(a.machine); });
  std::function<data::Statistics()> statistics;
  if (!refused) refused = refusal_of(launched, [&] { statistics = begin_statistics(*spec, launched); });
  const comm::Mpi mpi;
  if (launched && a.ranks > 0 && a.ranks != mpi.size())
    throw ConfigError(
        "--ranks", "",
        std::to_string(a.ranks) + " are wanted, and the launcher started " + std::to_string(mpi.size()),
        "leave it out, or start as many");
  if (bad_spec) throw ConfigError(*bad_spec);
  if (!refused && launched) refused = name_run_of_all(a, *spec, folder, mpi);
  // Ranks of a launcher become data parallelism unless the layout says otherwise.
  if (spec->layout.world() == 1 && mpi.size() > 1) {
    a.set.push_back("layout.dp=" + std::to_string(mpi.size()));
    spec = loaded(a);
  }
  require_kernels_of_words(*spec);
  if (mpi.size() == 1 && spec->layout.world() > 1 && !launched)
    start_under_mpiexec(a, *spec, spec->layout.world());
  train_here(a, *spec, refused, statistics, machine, mpi);
}

}  // namespace

void add_train_command(CLI::App& app, Submit submit) {
  auto a = std::make_shared<TrainArguments>();
  CLI::App* c = app.add_subcommand("train", "Train a net; with --ranks on several processes over MPI");
  add_config_option(*c, a->config, "config", "Run configuration (YAML), e.g. configs/models/vit-tiny.yaml")
      ->required();
  c->add_option("--ranks", a->ranks, "Start this many ranks with mpiexec; dp is what tp, cp and pp leave")
      ->check(CLI::Range(1, 1 << 20));
  c->add_option("--set", a->set, "Override a key: --set train.global_batch=8 (repeatable)")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  c->add_option("--trace", a->trace, "Write a Chrome trace of the last steps, for ui.perfetto.dev");
  c->add_option(
      "--resume", a->resume,
      "Continue from a run directory's last checkpoint, or from one checkpoint. Net, optimizer, seed, batch "
      "and data order must be those of the checkpoint; layout, rates, precision, steps and where data "
      "lie may change, and what does is printed");
  c->add_flag(
      "--new", a->fresh,
      "Begin another run where run.out holds one: beside it, as runs/first-2; with --resume, a branch");
  c->add_flag("--set-aside-damaged", a->set_aside,
              "With --resume of run.out itself: rename damaged last checkpoints (step-N.damaged) and go on "
              "from the last whole one, as jobs do by themselves");
  add_about_options(*c, a->about);
  add_rank_output_option(*c, a->rank_output, "run.out/ranks");
  c->add_option(
       "--launcher", a->launcher,
       "slurm or pbs: submit jobs, each of which resumes from the last checkpoint after a time limit or "
       "a lost node")
      ->check(CLI::IsMember({"local", "slurm", "pbs"}))
      ->capture_default_str();
  add_machine_option(
      *c, a->machine,
      "Machine file: its peak gives the MFU of the step lines, its prediction is what advice compares with; "
      "with --launcher it has a `cluster:` section");
  c->add_option("--fit", a->fit,
                "Fit by settings (isobar fit) that a run.command without a net is compared with");
  c->add_option("--results", a->results,
                "With --launcher: directory of DIR/jobs and of the run, DIR/trials/ID");
  c->add_flag("--no-wait", a->no_wait,
              "With --launcher: submit the next job and return; the same command continues later");
  add_time_option(*c, a->time);
  c->add_flag("--dry-run", a->dry_run,
              "With --launcher: print jobs, node hours and the script; submit nothing");
  c->add_flag("--json", a->json,
              "No step lines; one JSON object at the end: run_end of run.out/result.jsonl, or why it failed");
  c->footer(
      "  isobar train configs/models/vit-tiny.yaml --set run.out=runs/first\n"
      "  isobar train configs/models/vit-tiny.yaml --set run.out=runs/{name}-{n}    # --name or the file's; "
      "next number\n"
      "  isobar train configs/models/vit-tiny.yaml --ranks 2 --set policy.amp=bf16 --trace trace.json\n"
      "  mpiexec -n 2 isobar train configs/models/vit-tiny.yaml        # the same; srun works too\n"
      "  isobar train long.yaml --launcher slurm --machine mine.yaml --results runs/long   # as jobs\n\n"
      "Ctrl-C, SIGTERM and SIGHUP stop it after the current step, with a checkpoint if "
      "train.checkpoint_every\n"
      "asks for any; a second one ends it at once. So does SIGUSR1 (srun --signal=USR1@120). An mpiexec that "
      "you start\n"
      "yourself kills its ranks a second after it is asked to stop: give it --mca odls_base_sigkill_timeout "
      "60.\n\n"
      "Exit codes: 0 ok, 2 bad configuration, 3 loss is not a number, 4 out of memory, 130 Ctrl-C, 143 "
      "SIGTERM,\n"
      "1 anything else.");
  c->callback([a, c, submit = std::move(submit)] {
    try {
      refuse_contradictions(*a, *c);
      run_train(*a, *c, submit);
    } catch (const std::exception& e) {  // before any rank started
      if (a->json && !comm::Mpi::started_by_launcher()) print_failure(engine::class_of(e), e.what());
      throw;
    }
  });
}

}  // namespace isobar::cli
