#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/mpiexec.h"
#include "bench/cli/options.h"
#include "model/base/error.h"
#include "model/data/field_file.h"
#include "model/engine/arena.h"
#include "model/engine/processor.h"
#include "model/engine/trainer.h"
#include "model/nets/build.h"

namespace isobar {
namespace {

struct Arguments {
  std::string config, trace, resume;
  std::vector<std::string> set;
  int64_t ranks = 0;
  bool json = false;
};

int64_t other_axes(const LayoutSpec& l) {
  return l.tp * l.cp * l.pp;
}

/// Replaces this process by mpiexec running it `ranks` times. No shell is involved.
[[noreturn]] void start_under_mpiexec(const Arguments& a, int64_t ranks) {
  // What cannot be run is refused here, in one line instead of one a rank.
  const RunSpec spec = load_run_spec(a.config, a.set);
  build_plan(spec, 0, planned_workspace(spec, 1));
  const DataSpec& d = spec.data;
  if (!d.train.empty()) open_fields(d.train, "data.train", d.variables);
  if (!d.valid.empty()) open_fields(d.valid, "data.valid", d.variables);
  std::vector<std::string> args = mpiexec_command(ranks);
  args.emplace_back("train");
  args.push_back(a.config);
  for (const std::string& s : a.set) args.insert(args.end(), {"--set", s});
  if (!a.trace.empty()) args.insert(args.end(), {"--trace", a.trace});
  if (!a.resume.empty()) args.insert(args.end(), {"--resume", a.resume});
  if (a.json) args.emplace_back("--json");
  const std::vector<char*> argv = argv_of(args);
  ::execvp(argv[0], argv.data());
  throw std::runtime_error(std::string("cannot start mpiexec: ") + std::strerror(errno) +
                           "; install Open MPI (isobar doctor says how)");
}

void run(Arguments a) {
  // A folder that cannot be made is told before the training, not after it.
  if (const auto folder = std::filesystem::path(a.trace).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder);
  const bool launched = Mpi::started_by_launcher();
  if (a.ranks > 0 && !launched) {
    const RunSpec spec = load_run_spec(a.config, a.set);
    const int64_t others = other_axes(spec.layout);
    if (a.ranks % others != 0)
      throw ConfigError("--ranks", "",
                        std::to_string(a.ranks) + " is no multiple of tp*cp*pp = " + std::to_string(others),
                        "give a multiple");
    refuse_contradiction(a.set, "layout.dp", a.ranks / others, "--ranks " + std::to_string(a.ranks));
    a.set.push_back("layout.dp=" + std::to_string(a.ranks / others));
    if (spec.net.language()) require_kernels(spec, build_plan(load_run_spec(a.config, a.set), 0, {}));
    if (a.ranks > 1) start_under_mpiexec(a, a.ranks);
  }
  const Mpi mpi;
  if (launched && a.ranks > 0 && a.ranks != mpi.size())
    throw ConfigError(
        "--ranks", "",
        std::to_string(a.ranks) + " are wanted, and the launcher started " + std::to_string(mpi.size()),
        "leave it out, or start as many");
  // A launcher's ranks become data parallelism unless the layout says otherwise.
  RunSpec spec = load_run_spec(a.config, a.set);
  if (spec.layout.world() == 1 && mpi.size() > 1) {
    a.set.push_back("layout.dp=" + std::to_string(mpi.size()));
    spec = load_run_spec(a.config, a.set);
  }
  if (spec.net.language()) require_kernels(spec, build_plan(spec, 0, {}));
  if (mpi.size() == 1 && spec.layout.world() > 1 && !launched) start_under_mpiexec(a, spec.layout.world());
  int code = 1;
  try {
    train(spec, {a.trace, a.resume, a.json}, mpi);
    if (a.json && mpi.rank() == 0)
      std::cout << nlohmann::json{{"status", "ok"}, {"out", spec.run.out}} << "\n";
    return;
  } catch (const ConfigError& e) {
    code = 2;
    std::fprintf(stderr, "isobar: %s\n", e.what());
  } catch (const NumericFailure& e) {
    code = 3;
    std::fprintf(stderr, "isobar: rank %d: %s\n", mpi.rank(), e.what());
  } catch (const OutOfMemory& e) {
    code = 4;
    std::fprintf(stderr, "isobar: rank %d: out of memory: %s\n", mpi.rank(), e.what());
  } catch (const std::bad_alloc&) {
    code = 4;
    std::fprintf(stderr, "isobar: rank %d: out of memory\n", mpi.rank());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "isobar: rank %d: %s\n", mpi.rank(), e.what());
  }
  mpi.abort(code);  // the run fails as a whole: no rank waits for one that is gone
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App* c = app.add_subcommand("train", "Train a net; with --ranks on several processes over MPI");
  c->add_option("config", a->config, "Run configuration (YAML), e.g. configs/models/vit-tiny.yaml")
      ->required();
  c->add_option("--ranks", a->ranks, "Start under mpiexec with so many ranks (data parallel)")
      ->check(CLI::Range(1, 1 << 20));
  c->add_option("--set", a->set, "Override a key: --set train.global_batch=8 (repeatable)")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  c->add_option("--trace", a->trace, "Write a Chrome trace of the last steps, for ui.perfetto.dev");
  c->add_option("--resume", a->resume,
                "Go on from a run directory's last checkpoint, or from one checkpoint");
  c->add_flag("--json", a->json, "No step lines; one JSON object at the end (results: run.out/result.jsonl)");
  c->footer(
      "  isobar train configs/models/vit-tiny.yaml --set run.out=runs/first\n"
      "  isobar train configs/models/vit-tiny.yaml --ranks 2 --set policy.amp=bf16 --trace trace.json\n"
      "  mpiexec -n 2 isobar train configs/models/vit-tiny.yaml        # the same; srun works too\n\n"
      "Exit codes: 0 ok, 2 bad configuration, 3 loss is not a number, 4 out of memory, 1 anything else.");
  c->callback([a] { run(*a); });
}

}  // namespace isobar
