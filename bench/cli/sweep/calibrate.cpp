#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <set>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "bench/micro/cases.h"
#include "bench/ranks/mpiexec.h"
#include "bench/ranks/run_ranks.h"
#include "bench/sweep/results/trials.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/base/text/yaml.h"
#include "model/data/dataset.h"
#include "model/engine/host/host.h"
#include "perfmodel/fitting/calibrate.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/step/shapes.h"
#ifdef ISOBAR_WITH_CUDA
#include "bench/micro/device/cases.h"
#endif

namespace isobar::cli {
namespace {

namespace fs = std::filesystem;

struct CalibrateArguments {
  std::string out;
  std::string device = "cpu";
  int ranks = 2;
  bool json = false;
  std::string config;      // --for
  std::string ranks_part;  // internal: this process is one of several ranks
};

// Nets whose ops cover the usual range: rows and widths from a demo net to a slice of ViT-384, and heads of
// 32 to 96 (narrow heads have more softmax for each product).
std::vector<RunSpec> specimens() {
  std::vector<RunSpec> out;
  struct Size {
    int64_t embed, heads, depth, height, width, batch;
  };
  for (const Size& s : {Size{128, 4, 2, 64, 128, 2}, Size{128, 4, 2, 64, 128, 8},
                        Size{384, 8, 1, 192, 384, 1}, Size{384, 4, 2, 64, 256, 1}}) {
    for (const Amp amp : {Amp::none, Amp::bf16}) {
      RunSpec r;
      r.file = "calibrate";
      r.net.vit().embed_dim = s.embed;
      r.net.vit().num_heads = s.heads;
      r.net.vit().depth = s.depth;
      r.net.vit().img_height = s.height;
      r.net.vit().img_width = s.width;
      r.net.vit().in_channels = r.net.vit().out_channels = 4;
      r.train.global_batch = s.batch;
      r.policy.micro_batch = s.batch;
      r.policy.amp = amp;
      out.push_back(r);
    }
  }
  return out;
}

struct Scratch {  // a temporary directory beside the machine file, since most runs are on the same disk
  fs::path path;
  explicit Scratch(const fs::path& beside) {
    const fs::path parent = fs::absolute(beside).parent_path();
    std::error_code failed;
    fs::create_directories(parent, failed);
    std::string name = (parent / ".isobar-calibrate-XXXXXX").string();
    if (failed || !::mkdtemp(name.data()))
      throw ConfigError("-o", beside.string(), "nothing can be written in " + parent.string(),
                        "name a machine file in a directory that is yours");
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;  // the result no longer depends on it
    fs::remove_all(path, ignored);
  }
};

/// Runs this program's part on several ranks under mpiexec; its JSON is returned through a file.
nlohmann::json measure_on_ranks(int ranks, const fs::path& file, const std::string& config) {
  std::vector<std::string> args = ranks::mpiexec_command(ranks);
  args.insert(args.end(), {"calibrate", "-o", "-", "--ranks-part", file.string()});
  if (!config.empty()) args.insert(args.end(), {"--for", config});
  const int code = ranks::run_ranks(ranks, std::move(args), "");
  if (code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP) throw ExitCode{code};
  if (code != 0)
    throw std::runtime_error(
        "mpiexec failed while measuring on several ranks; isobar doctor says what is missing");
  return nlohmann::json::parse(read_file(file));
}

/// Specs that a configuration, or every trial of a sweep, computes.
std::vector<RunSpec> specs_of(const std::string& config) {
  if (!load_yaml(config).contains("base")) return {load_run_spec(config)};
  std::vector<RunSpec> out;
  for (const sweep::Trial& t : sweep::expand(sweep::load_sweep_spec(config)).trials) out.push_back(t.spec);
  return out;
}

void run_ranks_part(const std::string& file, const std::string& config) {
  const comm::Mpi mpi;
  micro::register_collective_cases(mpi, 1);
  micro::register_checkpoint_cases(fs::path(file).parent_path() / "run", mpi);
  std::vector<RunSpec> beside = specimens();  // the cost of an op while other ranks compute too
  std::erase_if(beside, [](const RunSpec& spec) { return spec.train.global_batch != 8; });
  micro::register_op_cases(beside, {1}, mpi.size());
  std::set<std::string> known;
  for (const RunSpec& spec : micro::meeting_specimens(mpi.size()))
    micro::register_lockstep_case(spec, mpi, known);
  if (!config.empty())
    for (const RunSpec& spec : specs_of(config)) micro::register_lockstep_case(spec, mpi, known);
  const nlohmann::json j = micro::run_registered(std::to_string(mpi.size()) + " ranks", mpi.rank() == 0);
  if (mpi.rank() == 0) write_atomically(file, json_text(j));
}

// Started by a launcher on several hosts: measures the links between them, and adds them to the file that an
// earlier calibration on one host has written.
void run_network(const CalibrateArguments& a) {
  const comm::Mpi mpi;
  if (mpi.ranks_on_host() == mpi.size())
    throw ConfigError("isobar calibrate", "", "was started by a launcher with all ranks on one host",
                      "start it by itself, or on two hosts and more to measure their network");
  perf::Machine machine = perf::load_machine(a.out);
  if (machine.fit)
    throw ConfigError(a.out, "fit", "was fitted to runs already, on another network or none",
                      "add the network to what isobar calibrate wrote, then run isobar fit again");
  micro::register_collective_cases(mpi, 1, true);
  const nlohmann::json j = micro::run_registered("network", mpi.rank() == 0);
  if (mpi.rank() != 0) return;
  machine = perf::with_network(std::move(machine), j, "benchmarks of the network");
  perf::save_machine(machine, a.out);
  write_atomically(fs::path(a.out).replace_extension(".network.json"), json_text(j, 1) + "\n");
  if (a.json)
    std::cout << json_text(nlohmann::json{{"machine", a.out}, {"benchmarks", j["benchmarks"].size()}}, 1)
              << "\n";
  else
    std::printf("network: %.0f us a message, %.2f Gbit/s -> %s\n",
                1e6 * machine[perf::Coef::message_net].value, 8e-9 / machine[perf::Coef::wire_net].value,
                a.out.c_str());
}

void widen(perf::Ranges& ranges, const std::map<std::string, double>& by) {
  for (const auto& [name, value] : by) {
    std::vector<double>& r = ranges.try_emplace(name, std::vector<double>{value, value}).first->second;
    r = {std::min(r[0], value), std::max(r[1], value)};
  }
}

/// Times the ops of `config` with their own shapes, one specification after the other, so that no two arenas
/// are held at once.
void measure_shapes(const std::string& config, nlohmann::json& benchmarks, perf::Ranges& timed) {
  std::set<std::string> known;
  for (const RunSpec& spec : specs_of(config)) {
    const int64_t threads =
        perf::threads_of(spec, engine::cores(), std::min<int64_t>(spec.layout.world(), engine::cores()));
    if (perf::case_precision(spec).empty() || threads > engine::cores()) continue;
    widen(timed, perf::op_quantities_of(spec, threads));
    if (!micro::register_shape_cases(spec, static_cast<int>(threads), known)) continue;
    const nlohmann::json part = micro::run_registered("its ops, " + std::to_string(threads) + " threads");
    for (const auto& b : part.at("benchmarks")) benchmarks.push_back(b);
  }
  if (known.empty())
    throw ConfigError(config, "",
                      "has no run whose ops can be timed by shape: policy.amp is emulated, or "
                      "run.threads is more than this host's " +
                          std::to_string(engine::cores()) + " cores",
                      "leave --for out");
}

/// The first run that reads fields from files that exist on this host.
std::optional<RunSpec> run_with_data(const std::string& config) {
  for (const RunSpec& spec : specs_of(config)) {
    if (spec.data.train.empty() || !spec.net.images()) continue;
    const std::string first = spec.data.train.substr(0, spec.data.train.find(','));
    if (std::error_code unknown; !fs::exists(first, unknown)) {
      std::fprintf(stderr, "isobar: %s is not here: reading is timed on files made for it\n", first.c_str());
      return std::nullopt;
    }
    data::require_data(spec);
    return spec;
  }
  return std::nullopt;
}

void write_machine(const CalibrateArguments& a, const nlohmann::json& j) {
  const perf::Machine machine = perf::machine_from_benchmarks(j, "benchmarks of this machine");
  perf::save_machine(machine, a.out);
  write_atomically(fs::path(a.out).replace_extension(".benchmarks.json"), json_text(j, 1) + "\n");
  if (a.json) {
    std::cout << json_text(nlohmann::json{{"machine", a.out}, {"benchmarks", j["benchmarks"].size()}}, 1)
              << "\n";
    return;
  }
  if (machine.accelerator)
    for (const std::string& how : machine.accelerator->provenance) std::printf("%s\n", how.c_str());
  std::printf("%zu benchmarks -> %s\n", j["benchmarks"].size(), a.out.c_str());
}

#ifdef ISOBAR_WITH_CUDA

// Slices of nets as users train them on a GPU, with full tokens and widths: a block at D=384 and at D=1536.
std::vector<RunSpec> device_specimens() {
  std::vector<RunSpec> out;
  struct Size {
    int64_t embed, heads, batch;
  };
  for (const Size& s : {Size{384, 8, 1}, Size{384, 8, 16}, Size{1536, 8, 4}})
    for (const Amp amp : {Amp::bf16, Amp::tf32, Amp::none}) {
      if (s.batch > 1 && amp != Amp::bf16) continue;
      RunSpec r;
      r.file = "calibrate";
      r.net.vit().embed_dim = s.embed;
      r.net.vit().num_heads = s.heads;
      r.net.vit().depth = 1;
      r.train.global_batch = r.policy.micro_batch = s.batch;
      r.policy.amp = amp;
      out.push_back(r);
    }
  return out;
}

// One rank: the GPU and its ops. Several, started by a launcher: NCCL between them, into a file of its own.
void run_device(const CalibrateArguments& a) {
  const comm::Mpi mpi;
  cuda::use_device("--device", mpi.rank_on_host());
  const micro::DeviceTimer timer;
  micro::add_device_context(timer);
  if (mpi.size() > 1) {
    micro::register_nccl_cases(mpi);
    const nlohmann::json j = micro::run_registered("NCCL", mpi.rank() == 0);
    if (mpi.rank() != 0) return;
    const fs::path file = fs::path(a.out).replace_extension(".nccl.json");
    write_atomically(file, json_text(j, 1) + "\n");
    std::printf("%zu benchmarks over %d ranks -> %s\n", j["benchmarks"].size(), mpi.size(), file.c_str());
    return;
  }
  const Scratch scratch(a.out);
  micro::register_device_peak_cases(timer);
  micro::register_device_op_cases(device_specimens(), timer);
  micro::register_device_attention_cases(timer);
  micro::register_device_step_cases(timer);
  micro::register_read_cases(scratch.path / "data");
  micro::register_checkpoint_cases(scratch.path / "run", mpi);
  write_machine(a, micro::run_registered("device"));
}

#else

void run_device(const CalibrateArguments&) {
  throw ConfigError("--device", "", "is cuda, and this program was built without it",
                    "build it where nvcc, cuBLASLt and cuDNN are, or leave --device out");
}

#endif

void run_calibrate(const CalibrateArguments& a) {
  if (a.device != "cpu") return run_device(a);
  if (!a.ranks_part.empty()) return run_ranks_part(a.ranks_part, a.config);
  if (comm::Mpi::started_by_launcher()) return run_network(a);
  const Scratch scratch(a.out);
  const int all = engine::cores();
  micro::register_peak_cases(1);
  if (all > 1) micro::register_peak_cases(all);
  perf::Ranges timed;
  const std::vector<int> threads = all > 1 ? std::vector<int>{1, all} : std::vector<int>{1};
  micro::register_op_cases(specimens(), threads);
  for (const RunSpec& spec : specimens())
    for (const int t : threads) widen(timed, perf::op_quantities_of(spec, t));
  const std::optional<RunSpec> own = a.config.empty() ? std::nullopt : run_with_data(a.config);
  micro::register_read_cases(scratch.path / "data", own ? &*own : nullptr);
  const comm::Mpi alone;
  micro::register_checkpoint_cases(scratch.path / "run", alone);
  nlohmann::json j = micro::run_registered("ops");
  if (a.ranks > 1) {
    const nlohmann::json part = measure_on_ranks(a.ranks, scratch.path / "ranks.json", a.config);
    for (const auto& b : part.at("benchmarks")) j["benchmarks"].push_back(b);
  }
  if (!a.config.empty()) measure_shapes(a.config, j["benchmarks"], timed);
  j["context"]["timed"] = timed;
  write_machine(a, j);
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  auto a = std::make_shared<CalibrateArguments>();
  CLI::App* c = app.add_subcommand("calibrate", "Measure this machine and write its machine file");
  c->add_option("-o,--output", a->out, "Machine file to write, e.g. configs/machines/local.yaml")->required();
  c->add_option("--ranks", a->ranks, "Ranks of the cases that need several (1: leave them out)")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  c->add_option(
       "--for", a->config,
       "Configuration or sweep: time its ops with their own shapes too, on one rank, and the reading of "
       "its data.train")
      ->check(CLI::ExistingFile);
  c->add_option("--device", a->device, "cuda: this host's GPU, by its own clock")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  c->add_flag("--json", a->json, "Print what was written as JSON");
  c->add_option("--ranks-part", a->ranks_part)->group("");
  c->footer(
      "Times each op within the steps of a few small nets (under a minute on two cores; Google Benchmark "
      "reports them), "
      "all-reduces\n"
      "over MPI, data reading, and checkpoints on the disk of the machine file, and turns the times into "
      "coefficients\n"
      "with units and "
      "intervals. The raw benchmarks are kept beside the machine file, in Google Benchmark's JSON.\n"
      "Stop other work on this machine first: it would be measured as part of it.\n\n"
      "  isobar calibrate -o configs/machines/local.yaml\n"
      "  isobar calibrate -o results/emulator.yaml --for configs/sweeps/emulator.yaml   # short steps, small "
      "nets\n"
      "  isobar calibrate --device cuda -o configs/machines/gpu.yaml     # at the clock that the card holds "
      "in a step\n\n"
      "On a cluster measure one host first, and then, with one rank on each of two hosts, the network "
      "between "
      "them:\n\n"
      "  mpiexec -n 2 --map-by node isobar calibrate -o configs/machines/local.yaml      # srun works too");
  c->callback([a, c] {
    const bool launched = a->ranks_part.empty() && comm::Mpi::started_by_launcher();
    refuse_unused(
        *c, {{"--ranks", launched, "is for the launcher to say", "leave it out"},
             {"--ranks", a->device != "cpu", "is of cases on the CPU", "leave it out"},
             {"--for", launched || a->device != "cpu", "is of ops on one host's cores", "leave it out"},
             {"--json", a->device != "cpu" && launched, "is not for the network of GPUs", "leave it out"}});
    run_calibrate(*a);
  });
}

}  // namespace isobar::cli
