// isobar predict: the command line of perfmodel's predict.
#include "perfmodel/predict.h"
#include "model/engine/processor.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/predict_layouts.h"
#include "bench/cli/step_text.h"
#include "model/base/error.h"
#include "perfmodel/search.h"

namespace isobar {
namespace {

constexpr const char* kHelp =
    R"(Says how long one optimizer step of CONFIG takes on a machine, where the time goes, how sure that is and how
much memory one rank needs; nothing is run.

The interval holds the truth in 80 of 100 cases. It is narrow for runs like those that the machine file was fitted
to, wide for others, and widest for a spec sheet or a calibration alone; warnings say why.

For a cluster of accelerators (configs/machines/dgx-h100.yaml …) --gpus searches every layout, policy and placement
that fits, and says what would have to change for another to be the best; without it the configuration's layout is
predicted.

Examples:
  isobar predict configs/models/gpt3-1t.yaml --machine configs/machines/dgx-b200.yaml --gpus 16384 --global-batch 4096
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --gpus 256 --tokens 1e12
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --whatif nvlink_bw*2
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml --ranks 2 --set policy.amp=bf16
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml --json | jq .step_s)";

struct Arguments {
  std::string config, machine;
  std::vector<std::string> set;
  int64_t ranks = 0, ranks_on_host = 0, global_batch = 0;
  std::vector<std::string> what_if;
  LayoutQuestion question;
};

RunSpec spec_of(const Arguments& a) {
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
  set.push_back("layout.dp=" + std::to_string(a.ranks / others));
  return load_run_spec(a.config, set);
}

StepText text_of(const Prediction& p) {
  return {p.step_s,     p.lower, p.upper,      p.ceiling_s, p.samples_per_s,
          p.correction, p.terms, p.checkpoint, p.warnings};
}

void print_json(const Prediction& p, const Machine& m) {
  nlohmann::json memory = nlohmann::json::object();
  for (const auto& [name, bytes] : p.memory) memory[name] = bytes;
  nlohmann::json j = json_of(text_of(p));
  j.update({{"machine", m.name},
            {"ranks", p.where.ranks},
            {"threads", p.where.threads},
            {"flops_per_rank", p.flops},
            {"memory_bytes", memory},
            {"memory_total_bytes", p.memory_total}});
  std::printf("%s\n", j.dump(1).c_str());
}

void print_text(const Prediction& p, const RunSpec& spec, const Machine& m) {
  std::printf("On %s: %lld rank%s x %lld thread%s\n\n", m.name.empty() ? m.file.c_str() : m.name.c_str(),
              static_cast<long long>(p.where.ranks), p.where.ranks == 1 ? "" : "s",
              static_cast<long long>(p.where.threads), p.where.threads == 1 ? "" : "s");
  print_step(text_of(p));
  const TimeUnit u = unit_of(p.step_s);
  std::printf("  %.4g samples/s; %.4g GFLOP/s a rank; the peak would allow %.3f %s\n\n", p.samples_per_s,
              1e-9 * p.flops / p.step_s, u.per_second * p.ceiling_s, u.name);
  std::printf("  %-34s %12s\n", "memory of one rank", "MB");
  for (const auto& [name, bytes] : p.memory)
    std::printf("  %-34s %12.2f\n", name.c_str(), 1e-6 * static_cast<double>(bytes));
  std::printf("  %-34s %12.2f\n", "together", 1e-6 * static_cast<double>(p.memory_total));
  std::printf("\n  %s\n", text_of(p.checkpoint, spec, p.step_s).c_str());
  for (const std::string& w : p.warnings) std::printf("note: %s\n", w.c_str());
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App* predict_command =
      app.add_subcommand("predict", "Step time by term, throughput and memory, with interval");
  predict_command->footer(kHelp);
  predict_command->add_option("CONFIG", a->config, "Run configuration (YAML)")->required();
  predict_command->add_option("--machine", a->machine, "Machine file (isobar calibrate, isobar fit)")
      ->required();
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
  predict_command->add_option("--tokens", a->question.tokens, "Time and cost of training on so many tokens");
  predict_command->add_option("--samples", a->question.samples,
                              "Time and cost of training on so many samples");
  predict_command->add_flag("--rates", a->question.rates,
                            "What the step's time is made of, price by price, and each price's source "
                            "(accelerators, one layout)");
  predict_command->add_flag("--json", a->question.json, "Print JSON on stdout instead of tables");
  predict_command->callback([a] {
    if (a->global_batch > 0) a->set.push_back("train.global_batch=" + std::to_string(a->global_batch));
    if (!a->question.gpus.empty())  // its own layout is not asked for
      for (const char* one : {"layout.dp=1", "layout.tp=1", "layout.cp=1", "layout.pp=1", "layout.vpp=1",
                              "layout.order=tp-cp-dp-pp", "policy.micro_batch=0", "policy.schedule=1f1b"})
        a->set.emplace_back(one);
    const RunSpec spec = spec_of(*a);
    Machine m = load_machine(a->machine);
    if (a->question.rates && (!m.accelerator || !a->question.gpus.empty()))
      throw ConfigError(a->machine, "--rates", "is for one layout of accelerators",
                        "leave it or --gpus out, or name a machine of accelerators");
    for (const std::string& change : a->what_if) m = what_if(m, change);
    if (m.accelerator || !a->question.gpus.empty()) return answer(spec, m, a->question);
    const int64_t on_host = a->ranks_on_host > 0 ? a->ranks_on_host : spec.layout.world();
    const int64_t threads = threads_of(spec, m.identity.cores, on_host);
    const Prediction p = predict(spec, m,
                                 {.ranks_on_host = a->ranks_on_host,
                                  .threads = threads,
                                  .workspace = planned_workspace(spec, static_cast<int>(threads))});
    if (a->question.json)
      print_json(p, m);
    else
      print_text(p, spec, m);
  });
}

}  // namespace isobar
