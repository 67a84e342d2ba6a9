// isobar predict: the command line of perfmodel's predict.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/machine_option.h"
#include "bench/cli/options.h"
#include "bench/cli/predict_engine.h"
#include "bench/cli/predict_layouts.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/base/yaml.h"
#include "model/engine/processor.h"
#include "perfmodel/search.h"

namespace isobar {
namespace {

constexpr const char* kPredictHelp =
    R"(Says how long one optimizer step of CONFIG takes on a machine, where the time goes, how sure that is and how
much memory one rank needs; nothing is run.

The interval holds the truth in 80 of 100 cases. It is narrow for runs like those that the machine file was fitted
to, wide for others, and widest for a spec sheet or a calibration alone; warnings say why.

For a cluster of accelerators (configs/machines/dgx-h100.yaml …) --gpus searches every layout, policy and placement
that fits, and says what would have to change for another to be the best; what --set says of layout.* and policy.*
is kept to, the file's own layout is not. Without --gpus the configuration's layout is predicted.

What computes is what the machine file describes, unless the configuration or --set names run.device.
A configuration that does not fit ends with exit code 4; the first lines say by how much, and the smallest
change that fits.

What is priced is Isobar's own engine, unless --engine names another: megatron, deepspeed, nemo, mlperf, fsdp,
nanotron, nersc (configs/engines), or unknown, a mixture of all. Its coefficients are learnt from the published
runs of configs/published when it is asked for; the interval is what campaigns were off by that were left out.
--tuned says how tuned the software is; --fit learns from a few runs of your own (isobar fit RUNS.csv --engine E).
With --gpus the layouts that a search finds for Isobar's own engine are
priced again and ranked anew.

Where policy.micro_batch is not given, or 0, a GPU's run takes the largest that fits its memory, as `isobar train`
does; what is taken is printed.

FLOP/s: model FLOPs are three times the forward pass's matrix products, hardware FLOPs what is executed,
recomputation too; MFU and HFU are their shares of the peak.

Examples:
  isobar predict configs/models/gpt3-1t.yaml --machine configs/machines/dgx-b200.yaml --gpus 16384 --global-batch 4096
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --gpus 256 --tokens 1e12
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --whatif nvlink_bw*2
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --set layout.tp=8
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --engine nemo
  isobar predict configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --fit mine-fit.json
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml --ranks 2 --set policy.amp=bf16
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml --json | jq .step_s)";

struct PredictArguments {
  std::string config, machine;
  std::vector<std::string> set;
  int64_t ranks = 0, ranks_on_host = 0, global_batch = 0;
  std::vector<std::string> what_if;
  LayoutQuestion question;
  EngineQuestion engine{"isobar", {}, {}};
};

RunSpec spec_of(const PredictArguments& a) {
  if (a.ranks == 0) return load_run_spec(a.config, a.set);
  // As `isobar train --ranks`: data parallelism takes the ranks that the other axes leave.
  std::vector<std::string> set = a.set;
  const RunSpec given = load_run_spec(a.config, [&] {
    std::vector<std::string> one = set;
    one.emplace_back("layout.dp=1");
    return one;
  }());
  const int64_t others = given.layout.world();
  if (a.ranks % others != 0)
    throw ConfigError(
        a.config, "--ranks",
        std::to_string(a.ranks) + " cannot be shared by tp * cp * pp = " + std::to_string(others),
        "use a multiple");
  refuse_contradiction(set, "layout.dp", a.ranks / others, "--ranks " + std::to_string(a.ranks));
  set.push_back("layout.dp=" + std::to_string(a.ranks / others));
  return load_run_spec(a.config, set);
}

// Whether somebody has said what computes; else the machine file does.
bool names_device(const PredictArguments& a) {
  const nlohmann::json j = load_yaml(a.config);
  if (j.is_object() && j.contains("run") && j["run"].is_object() && j["run"].contains("device")) return true;
  return std::any_of(a.set.begin(), a.set.end(),
                     [](const std::string& s) { return s.starts_with("run.device="); });
}

// `user`: what was set by hand, which a search keeps to.
void run_predict(const PredictArguments& a, const std::vector<std::string>& user) {
  RunSpec spec = spec_of(a);
  Machine m = load_machine(a.machine);
  for (const std::string& change : a.what_if) m = what_if(m, change);
  if (!names_device(a)) spec.run.device = "auto";
  if (device_of(spec, m) == Device::accelerator && a.ranks_on_host > 0)
    throw ConfigError("isobar predict", "--ranks-on-host", "is for cores",
                      "of accelerators " + a.machine + " says it (accelerator.tiers.host.ranks)");
  LayoutQuestion question = a.question;
  if (!question.gpus.empty()) question.given = given_layout(spec, user);
  EngineQuestion engine = a.engine;
  if (!engine.fit.empty()) take_fit(m, engine);
  if (engine.engine != "isobar") return answer(spec, m, question, engine);
  if (question.rates && device_of(spec, m) != Device::accelerator)
    throw ConfigError("isobar predict", "--rates", "is for accelerators",
                      "name a machine of accelerators, or leave it out");
  answer(spec, m, question,
         {.ranks_on_host = a.ranks_on_host, .workspace = cpu_workspace, .device_workspace = [&spec] {
            return gpu_workspace(spec);
          }});
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto a = std::make_shared<PredictArguments>();
  CLI::App* predict_command =
      app.add_subcommand("predict", "Step time by term, throughput and memory, with interval");
  predict_command->footer(kPredictHelp);
  predict_command->add_option("CONFIG", a->config, "Run configuration (YAML)")->required();
  add_machine_option(*predict_command, a->machine, "Machine file (isobar calibrate, isobar fit)")->required();
  predict_command->add_option("--set", a->set, "key=value of the configuration; may be repeated")
      ->allow_extra_args(false);
  predict_command->add_option("--ranks", a->ranks, "World size; data parallelism takes what is left of it")
      ->check(CLI::Range(1, 1 << 20));
  predict_command->add_option("--ranks-on-host", a->ranks_on_host, "Ranks that share one host (default: all)")
      ->check(CLI::Range(1, 1 << 20));
  predict_command->add_option("--gpus", a->question.gpus, "Search the layouts of so many; may be repeated")
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1 << 20));
  predict_command->add_option("--global-batch", a->global_batch, "Samples of a step")
      ->check(CLI::Range(1, 1 << 24));
  predict_command->add_option("--top", a->question.top, "How many layouts to list")
      ->check(CLI::Range(1, 1000));
  predict_command
      ->add_option("--space", a->question.space,
                   "all, or 1d: tp with sequence parallelism, dp with ZeRO 1, pp by 1F1B, no recomputation")
      ->check(CLI::IsMember({"all", "1d"}));
  predict_command->add_flag("--pareto", a->question.pareto, "The front of time against memory, too");
  predict_command
      ->add_option(
          "--whatif", a->what_if,
          "Change the machine: flops, memory_bw, nvlink_bw, net_bw, latency, memory_size, nvlink_ranks, "
          "e.g. nvlink_bw*2; may be repeated")
      ->allow_extra_args(false);
  auto* tokens =
      predict_command
          ->add_option("--tokens", a->question.tokens, "Time and cost of training on so many tokens")
          ->check(above_zero());
  predict_command
      ->add_option("--samples", a->question.samples, "Time and cost of training on so many samples")
      ->check(above_zero())
      ->excludes(tokens);
  predict_command->add_option("--engine", a->engine.engine,
                              "Whose software runs it: isobar, a file of configs/engines, or unknown");
  predict_command
      ->add_option("--tuned", a->engine.tuned, "How tuned that engine is: 0 research code … 1 MLPerf")
      ->check(number_in(0, 1));
  predict_command->add_option("--fit", a->engine.fit,
                              "From your own runs of another engine, too (isobar fit RUNS.csv --engine E)");
  predict_command->add_flag("--rates", a->question.rates,
                            "What the step's time is made of, price by price, and each price's source "
                            "(accelerators, one layout)");
  predict_command->add_flag("--json", a->question.json, "Print JSON on stdout instead of tables");
  predict_command->callback([a, predict_command] {
    const bool searches = !a->question.gpus.empty(),
               foreign = a->engine.engine != "isobar" || !a->engine.fit.empty();
    const char* own = "is answered of Isobar's own engine alone";
    refuse_unused(
        *predict_command,
        {{"--tuned", !foreign, "is of other engines", "name one with --engine"},
         {"--tuned", !a->engine.fit.empty(), "is said by the fit", "give it to isobar fit"},
         {"--rates", foreign, own, "leave it or --engine out"},
         {"--pareto", foreign, own, "leave it or --engine out"},
         {"--tokens", foreign, own, "leave it or --engine out"},
         {"--samples", foreign, own, "leave it or --engine out"},
         {"--ranks-on-host", foreign, own, "leave it or --engine out"},
         {"--ranks", searches, "says how many ranks there are, as --gpus does", "keep one of the two"},
         {"--top", !searches, "is for a search of layouts", "add --gpus N"},
         {"--space", !searches, "is for a search of layouts", "add --gpus N"},
         {"--pareto", !searches, "is for a search of layouts", "add --gpus N"},
         {"--rates", searches, "is for one layout", "leave --gpus out"}});
    if (a->global_batch > 0) {
      refuse_contradiction(a->set, "train.global_batch", a->global_batch, "--global-batch");
      a->set.push_back("train.global_batch=" + std::to_string(a->global_batch));
    }
    const std::vector<std::string> user = a->set;
    if (searches) {  // the file's own layout is not asked for, what the user sets is
      a->set = {"layout.dp=1",          "layout.tp=1",         "layout.cp=1",
                "layout.pp=1",          "layout.vpp=1",        "layout.order=tp-cp-dp-pp",
                "policy.micro_batch=0", "policy.schedule=1f1b"};
      a->set.insert(a->set.end(), user.begin(), user.end());
    }
    run_predict(*a, user);
  });
}

}  // namespace isobar
