#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "bench/cli/predict/ask.h"
#include "bench/cli/words/options.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/base/text/yaml.h"
#include "model/engine/processor.h"
#include "model/nets/build.h"
#include "perfmodel/ask/choose/emit.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/step/engine_prices.h"

namespace isobar::cli {
namespace {

constexpr const char *kRun = "Run, machine and engine", *kOutput = "Output";

// An option that the command has, and that was given.
bool given(const CLI::App& command, const std::string& option) {
  const CLI::Option* o = command.get_option_no_throw(option);
  return o && o->count() > 0;
}

// "64", or "128..2048": its doublings.
std::vector<int64_t> batches_of(const CLI::App& command, const std::string& text) {
  const auto number = [&](const std::string& one) {
    int64_t n = 0;
    const auto [rest, failed] = std::from_chars(one.data(), one.data() + one.size(), n);
    if (failed != std::errc() || rest != one.data() + one.size() || n < 1 || n > 1 << 24)
      throw ConfigError("isobar " + command.get_name(), "--global-batch", "'" + text + "' is no batch",
                        "give a number up to 16777216, or a range like 128..2048");
    return n;
  };
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {number(text)};
  std::vector<int64_t> out;
  const int64_t to = number(text.substr(dots + 2));
  for (int64_t n = number(text.substr(0, dots)); n <= to; n *= 2) out.push_back(n);
  if (out.empty())
    throw ConfigError("isobar " + command.get_name(), "--global-batch", "goes from more to less",
                      "write the smaller one first");
  return out;
}

void take_batches(const CLI::App& command, AskArguments& a) {
  if (a.global_batch.empty()) return;
  const std::vector<int64_t> batches = batches_of(command, a.global_batch);
  if (batches.size() > 1 && !a.searches())
    throw ConfigError("isobar " + command.get_name(), "--global-batch", "is a range, for a search of layouts",
                      "add --gpus N, or give one batch");
  refuse_contradiction(a.set, "train.global_batch", batches.front(), "--global-batch");
  a.set.push_back("train.global_batch=" + std::to_string(batches.front()));
  if (batches.size() > 1) a.question.batches = batches;
}

// Assignments of a run: the user's, after those that make way for a search.
std::vector<std::string> assignments_of(const AskArguments& a) {
  std::vector<std::string> set;
  if (a.searches())  // the user's settings are kept, but not the file's own layout
    set = {"layout.dp=1",          "layout.tp=1",
           "layout.cp=1",          "layout.pp=1",
           "layout.vpp=1",         "layout.ep=1",
           "layout.stages=[]",     "policy.micro_batch=0",
           "policy.schedule=1f1b", "layout.order=tp-cp-dp-pp"};
  set.insert(set.end(), a.set.begin(), a.set.end());
  return set;
}

RunSpec spec_of(const std::string& config, std::vector<std::string> set, int64_t ranks) {
  if (ranks == 0) return load_run_spec(config, set);
  // As in `isobar train --ranks`, data parallelism takes the ranks that the other axes leave.
  std::vector<std::string> one = set;
  one.emplace_back("layout.dp=1");
  const int64_t others = load_run_spec(config, one)->layout.world();
  if (ranks % others != 0)
    throw ConfigError(config, "--ranks",
                      std::to_string(ranks) + " cannot be shared by tp * cp * pp = " + std::to_string(others),
                      "use a multiple");
  refuse_contradiction(set, "layout.dp", ranks / others, "--ranks " + std::to_string(ranks));
  set.push_back("layout.dp=" + std::to_string(ranks / others));
  return load_run_spec(config, set);
}

// True if the user names the device; otherwise the machine file does.
bool names_device(const AskArguments& a) {
  const json j = load_yaml(a.config);
  if (j.is_object() && j.contains("run") && j["run"].is_object() && j["run"].contains("device")) return true;
  return std::any_of(a.set.begin(), a.set.end(),
                     [](const std::string& s) { return s.starts_with("run.device="); });
}

// Why Isobar's engine does not train the run; "": it does.
std::string untrained(const RunSpec& spec) {
  const plan::Plan plan = nets::build_plan(nets::sample_of(spec), 0, {});
  try {
    nets::require_kernels(spec, plan);
    return "";
  } catch (const ConfigError& e) {
    const std::string what = e.what();
    return what.substr(0, what.find(" -> "));
  }
}

// Without --engine: the software that a layout is emitted for, or an unknown engine for a run that ours does
// not train. A question that ours alone answers stays its.
void take_default_engine(const AskArguments& a, Asked& q) {
  const perf::Machine& m = q.machines.front();
  if (a.names_engine || !a.engine.fit.empty() || perf::device_of(q.spec, m) != perf::Device::accelerator)
    return;
  if (!a.emit.empty()) {
    if (a.emit == "isobar") return;
    q.engine.engine = a.emit;
    return;
  }
  if (a.question.pareto || a.question.offload || a.rates || !perf::engine_running(q.spec, m).empty()) return;
  if (const std::string why = untrained(q.spec); !why.empty())
    q.engine.engine = "unknown",
    q.engine.why = "since Isobar's engine does not train it (--engine isobar prices its plans): " + why;
}

// Prices by plans of the engine that was named, or that runs the net.
void take_engine(Asked& q) {
  const perf::ForeignEngine* named = q.engine.of_plans();
  if (named && q.spec.net.recorded()) {
    bool& compiled = q.spec.net.traced().compiled;
    if (compiled && !named->habits.compiled)
      throw ConfigError(q.spec.file, "net.compiled",
                        "is true, and " + named->name + " is PyTorch's eager mode",
                        "name pytorch-compiled, or leave one of them out");
    compiled = named->habits.compiled;
  }
  for (perf::Machine& m : q.machines)
    m = named                ? perf::run_by(*named, m, q.spec.net.recorded())
        : q.engine.foreign() ? m
                             : perf::machine_of(q.spec, m);
  const std::string runs = q.engine.foreign() ? "" : perf::engine_running(q.spec, q.machines.front());
  if (runs.empty()) return;
  q.question.engine = &perf::engine_named(runs);
  perf::refuse_axes(q.spec, *q.question.engine);
  q.engine.engine = "isobar";
}

/// Prices of several machines are compared as numbers.
void require_one_currency(const std::vector<perf::Machine>& machines) {
  const perf::Machine* first = nullptr;
  for (const perf::Machine& m : machines) {
    if (!m.accelerator || m.accelerator->price_per_hour <= 0) continue;
    if (!first) first = &m;
    if (const std::string& other = first->accelerator->currency; m.accelerator->currency != other)
      throw ConfigError(m.file, "accelerator.currency",
                        "is " + m.accelerator->currency + ", and that of " + first->name + " " + other,
                        "give price_per_hour of both in one currency");
  }
}

}  // namespace

void add_run_options(CLI::App& command, AskArguments& a, bool several) {
  a.command = command.get_name();
  add_config_option(command, a.config)->required();
  const std::string machine = "Machine file (isobar calibrate, isobar fit)";
  (several ? add_machine_option(command, a.machines, machine)
           : add_machine_option(command, a.machine, machine))
      ->group(kRun);
  command.add_option("--set", a.set, "key=value of the configuration; may be repeated")
      ->allow_extra_args(false)
      ->group(kRun);
  command
      .add_option("--global-batch", a.global_batch,
                  "Samples per optimizer step; of a search also 128..2048, the best of its doublings")
      ->group(kRun);
  command
      .add_option(
          "--engine", a.engine.engine,
          "Training software to predict: isobar, a file of configs/engines, or unknown, the default of nets "
          "that Isobar does not train")
      ->group(kRun);
  command.add_option("--tuned", a.engine.tuned, "How tuned that engine is: 0 research code … 1 MLPerf")
      ->check(number_in(0, 1))
      ->group(kRun);
  command
      .add_option("--fit", a.engine.fit,
                  "A fit to your own runs of it (isobar fit RUNS.csv --engine E), or by settings alone "
                  "(isobar fit DIR)")
      ->group(kRun);
}

void add_search_options(CLI::App& command, AskArguments& a, bool required) {
  CLI::Option* gpus =
      command.add_option("--gpus", a.question.gpus, "Number of accelerators; may be repeated")
          ->allow_extra_args(false)
          ->check(CLI::Range(1, 1 << 20));
  if (required) gpus->required();
  command.add_option("--fix", a.fix, "Only layouts with e.g. tp=8 or pp=2..8; separate several by commas")
      ->allow_extra_args(false);
  command.add_option("--exclude", a.exclude, "No layouts with e.g. zero=3; separate several by commas")
      ->allow_extra_args(false);
  command
      .add_option("--space", a.question.space,
                  "all, or 1d: tp with sequence parallelism, dp with ZeRO 1, pp by 1F1B, no recomputation")
      ->check(CLI::IsMember({"all", "1d"}));
}

void add_training_options(CLI::App& command, AskArguments& a) {
  auto* tokens = command.add_option("--tokens", a.question.tokens, "Length of the training, e.g. 1.5T")
                     ->transform(amount());
  command.add_option("--samples", a.question.samples, "The same in samples")
      ->transform(amount())
      ->excludes(tokens);
}

void add_rank_options(CLI::App& command, AskArguments& a) {
  command.add_option("--ranks", a.ranks, "World size; dp is what tp, cp and pp leave")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--ranks-on-host", a.ranks_on_host, "Ranks that share one host (default: all)")
      ->check(CLI::Range(1, 1 << 20));
}

void add_what_if_option(CLI::App& command, AskArguments& a) {
  command
      .add_option("--what-if,--whatif", a.what_if,
                  "Change the machine: flops, memory_bw, nvlink_bw, net_bw, latency, memory_size, "
                  "nvlink_ranks, price; or the training: tokens, samples; e.g. nvlink_bw*2. May be repeated")
      ->allow_extra_args(false);
}

void add_limit_options(CLI::App& command, AskArguments& a) {
  command.add_option("--deadline", a.question.deadline_s, "Time to train in, e.g. 10d")
      ->transform(duration());
  command
      .add_option("--budget", a.question.budget, "Money to train for, e.g. 100k of the machine's currency")
      ->transform(amount());
}

void add_output_options(CLI::App& command, AskArguments& a, bool page) {
  if (page)
    command.add_option("-o,--out", a.out, "Also write a page with figures, SVG, CSV and JSON there")
        ->group(kOutput);
  command.add_flag("--json", a.json, "Print JSON on stdout instead of tables")->group(kOutput);
}

void take_options(const CLI::App& command, AskArguments& a) {
  if (!a.machine.empty()) a.machines = {a.machine};
  a.names_engine = given(command, "--engine");
  const bool implied = !a.names_engine && !a.emit.empty() && a.emit != "isobar";
  const bool foreign = implied || a.engine.foreign() || !a.engine.fit.empty(),
             trains = perf::has_training(a.question);
  const std::string own = "is answered for Isobar's own engine alone", leave = "leave it or --engine out";
  const std::string search = "is for a search of layouts", add = "add --gpus N";
  const std::vector<Unused> unused = {
      {"--tuned", !foreign, "is of engines that published runs price", "name one of those with --engine"},
      {"--tuned", !a.engine.fit.empty(), "is said by the fit", "give it to isobar fit"},
      {"--fit", a.machines.size() > 1, "is of one machine", "leave the others out"},
      {"--pareto", foreign, own, leave},
      {"--offload", foreign, own, leave},
      {"--rates", foreign, own, leave},
      {"--ranks-on-host", foreign, own, leave},
      {"--ranks", a.searches(), "says how many ranks there are, as --gpus does", "keep one of the two"},
      {"--fix", !a.searches(), search, add},
      {"--exclude", !a.searches(), search, add},
      {"--space", !a.searches(), search, add},
      {"--deadline", !trains, "is of a training", "add --tokens or --samples"},
      {"--budget", !trains, "is of a training", "add --tokens or --samples"},
      {"--all", a.json, "is a table", "leave one out; JSON has all"},
      {"--out", a.json, "prints where the page is", "leave --json out; DIR/search.json has the data"}};
  for (const Unused& u : unused)
    if (u.unused && given(command, u.option))
      throw ConfigError("isobar " + command.get_name(), u.option, u.what, u.mend);
  take_batches(command, a);
  a.question.progress = true;
}

Asked asked(const AskArguments& a) {
  Asked q{.command = "isobar " + a.command, .spec = spec_of(a.config, assignments_of(a), a.ranks)};
  if (q.spec.run.by_settings)
    throw ConfigError(a.config, "net", "is missing, and " + q.command + " prices a net",
                      "describe it under `net:`");
  if (a.machines.empty())
    throw ConfigError(q.command, "--machine", "is missing",
                      "name a machine like dgx-h100, or a file of isobar calibrate");
  for (const std::string& file : a.machines) q.machines.push_back(perf::load_machine(file));
  require_one_currency(q.machines);
  q.question = a.question, q.engine = a.engine;
  q.emit = a.emit, q.out = a.out, q.rates = a.rates, q.json = a.json;
  if (!q.engine.fit.empty()) perf::take_fit(q.machines.front(), q.engine);
  if (!names_device(a)) q.spec.run.device = RunDevice::automatic;
  for (const perf::Machine& m : q.machines)
    if (perf::device_of(q.spec, m) == perf::Device::accelerator && a.ranks_on_host > 0)
      throw ConfigError(q.command, "--ranks-on-host", "is for cores",
                        "of accelerators " + m.file + " says it (accelerator.tiers.host.ranks)");
  if (a.searches()) q.question.keep = perf::given_layout(q.spec, a.set);
  for (const std::string& list : a.fix) q.question.keep.fix(list);
  for (const std::string& list : a.exclude) q.question.keep.exclude(list);
  if (!q.emit.empty())
    for (const perf::Constraint& c : perf::said_by(q.emit)) q.question.keep.add(c);
  take_default_engine(a, q);
  take_engine(q);
  q.options = {.host = {.ranks_on_host = a.ranks_on_host},
               .workspace = cpu_workspace,
               .device_workspace = [spec = q.spec] { return engine::gpu_workspace(spec); }};
  q.changed = perf::with_changes(q.machines.front(), a.what_if, q.question);
  return q;
}

}  // namespace isobar::cli
