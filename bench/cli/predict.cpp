// isobar predict: the command line of perfmodel's predict.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/ask.h"
#include "bench/cli/commands.h"
#include "bench/cli/machine_option.h"
#include "bench/cli/options.h"
#include "perfmodel/ask/choose/emit.h"

namespace isobar {
namespace {

constexpr const char* kPredictHelp =
    R"(Predicts the time of one optimizer step of CONFIG on a machine, term by term and with an 80 % interval, and the
memory of one rank; nothing is run.

The interval is meant to cover 80 of 100 measurements. It is narrow for runs like those that the machine file was
fitted to, wider for others, and widest for a spec sheet or a calibration alone; warnings say why.

For a cluster of accelerators (configs/machines/dgx-h100.yaml …) --gpus searches every layout, policy and placement
that fits, and says what would have to change for another to be the best. It keeps layout.* and policy.* as --set
gives them, and ignores the layout of the file. --fix and --exclude narrow the search: dp, tp, cp, pp, vpp, micro_batch,
zero (numbers and ranges like 2..8), schedule, recompute, cp_kind, order, sequence_parallel (words).
Without --gpus the configuration's layout is predicted.

Layouts are ranked by step time divided by the probability that they fit in memory; those whose predictions cannot
be told apart are listed with the runs that would decide between them. Two --machine are compared: step time, MFU,
price and kWh, and the probability that each is faster than the first. --deadline 10d and --budget 100k search for
the fewest accelerators that train --tokens 1T within them, with time for failures and checkpoints included. --emit
prints the layout for megatron, nemo, torchtitan, deepspeed or isobar itself; -o DIR draws the search.

The device is that of the machine file (CPU cores or accelerators), unless the configuration or --set names
run.device. A configuration that does not fit in memory ends with exit code 4; the first lines say by how much, and
the smallest change that fits.

Predictions are for Isobar's own engine, unless --engine names another: megatron, deepspeed, nemo, mlperf, fsdp,
nanotron, nersc (configs/engines), or unknown, a mixture of all. Its coefficients are fitted to the published runs in
configs/published; the width of the interval comes from campaigns that were left out of that fit. --tuned says how
well tuned the software is; --fit uses a few runs of your own (isobar fit RUNS.csv --engine E). With --gpus the
layouts that the search finds for Isobar's own engine are predicted again for E and ranked anew.

Where policy.micro_batch is not given, or 0, a GPU's run takes the largest that fits its memory, as `isobar train`
does; what is taken is printed.

Model FLOPs are three times those of the forward pass's matrix products; hardware FLOPs are all that are executed,
recomputation included. MFU and HFU are the respective FLOP/s as a share of the peak.

Examples:
  isobar predict configs/models/gpt3-1t.yaml --machine configs/machines/dgx-b200.yaml --gpus 16384 --global-batch 4096
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --gpus 256 --tokens 1e12
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --whatif nvlink_bw*2
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --set layout.tp=8
  isobar predict configs/models/llama3-70b.yaml --machine configs/machines/dgx-h100.yaml --gpus 64 --engine nemo
  isobar predict configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --fit mine-fit.json
  isobar predict configs/models/llama3-70b.yaml --machine dgx-h100 --machine dgx-b200 --gpus 64
  isobar predict configs/models/llama3-70b.yaml --machine dgx-h100 --tokens 1T --deadline 30d --budget 2M
  isobar predict configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --fix tp=2..8 --exclude zero=3 -o out
  isobar predict configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --exclude zero=2..3 --emit megatron
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml --ranks 2 --set policy.amp=bf16
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml --json | jq .step_s)";

void run_predict(const AskArguments& a) {
  const Asked q = asked(a);
  if (q.machines.size() > 1) {
    std::vector<Variant> all;
    for (const Machine& m : q.machines) all.push_back({m});
    return print_comparison(q, all);
  }
  Asked changed = q;  // the first answer has all of the changes
  changed.question.tokens *= q.changed.back().longer;
  changed.question.samples *= q.changed.back().longer;
  if (q.changed.size() > 1) changed.out.clear();
  if (!a.emit.empty()) return print_emitted(changed);
  if (a.plans()) return print_schedule(changed);
  a.searches() ? print_search(changed) : print_run(changed);
  if (q.changed.size() > 1 && !q.json) {
    std::printf("\nwith and without the changes:\n\n");
    print_comparison(q, q.changed);
  }
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto a = std::make_shared<AskArguments>();
  CLI::App* predict_command =
      app.add_subcommand("predict", "Predict step time by term, throughput and memory, with an interval");
  predict_command->footer(kPredictHelp);
  predict_command->add_option("CONFIG", a->config, "Run configuration (YAML)")->required();
  add_machine_option(*predict_command, a->machines, "Machine file (isobar calibrate, isobar fit)")
      ->required();
  predict_command->add_option("--set", a->set, "key=value of the configuration; may be repeated")
      ->allow_extra_args(false);
  predict_command->add_option("--ranks", a->ranks, "World size; dp is what tp, cp and pp leave")
      ->check(CLI::Range(1, 1 << 20));
  predict_command->add_option("--ranks-on-host", a->ranks_on_host, "Ranks that share one host (default: all)")
      ->check(CLI::Range(1, 1 << 20));
  predict_command
      ->add_option("--gpus", a->question.gpus,
                   "Search all layouts on this many accelerators; may be repeated")
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1 << 20));
  predict_command
      ->add_option("--fix", a->fix,
                   "In a search, only layouts with e.g. tp=8 or pp=2..8; separate several by commas")
      ->allow_extra_args(false);
  predict_command
      ->add_option("--exclude", a->exclude,
                   "In a search, no layouts with e.g. zero=3; separate several by commas")
      ->allow_extra_args(false);
  predict_command->add_option("--global-batch", a->global_batch, "Samples per optimizer step")
      ->check(CLI::Range(1, 1 << 24));
  predict_command->add_option("--top", a->question.top, "Layouts to list")->check(CLI::Range(1, 1000));
  predict_command
      ->add_option("--space", a->question.space,
                   "all, or 1d: tp with sequence parallelism, dp with ZeRO 1, pp by 1F1B, no recomputation")
      ->check(CLI::IsMember({"all", "1d"}));
  predict_command->add_flag(
      "--offload", a->question.offload,
      "Also the best layouts with optimizer moments, and with parameters, offloaded to host memory");
  predict_command->add_flag("--pareto", a->question.pareto, "Also the Pareto front of time and memory");
  predict_command
      ->add_option(
          "--whatif", a->what_if,
          "Change the machine: flops, memory_bw, nvlink_bw, net_bw, latency, memory_size, nvlink_ranks, "
          "price; or the training: tokens, samples; e.g. nvlink_bw*2. May be repeated: compares each change, "
          "and "
          "all together, with the machine as it is")
      ->allow_extra_args(false);
  auto* tokens = predict_command
                     ->add_option("--tokens", a->question.tokens,
                                  "Time and cost of training on this many tokens, e.g. 1.5T")
                     ->transform(amount());
  predict_command
      ->add_option("--samples", a->question.samples, "Time and cost of training on this many samples")
      ->transform(amount())
      ->excludes(tokens);
  predict_command
      ->add_option("--deadline", a->question.deadline_s,
                   "Find the fewest accelerators that train --tokens or --samples in e.g. 10d")
      ->transform(duration());
  predict_command
      ->add_option("--budget", a->question.budget,
                   "Find the fewest accelerators that train them for e.g. 100k of the machine's currency")
      ->transform(amount());
  predict_command
      ->add_option("--emit", a->emit,
                   "Print only the layout (with --gpus the best), as options or a file of this software")
      ->check(CLI::IsMember(emit_targets()));
  predict_command->add_option("--engine", a->engine.engine,
                              "Training software to predict: isobar, a file of configs/engines, or unknown");
  predict_command
      ->add_option("--tuned", a->engine.tuned, "How tuned that engine is: 0 research code … 1 MLPerf")
      ->check(number_in(0, 1));
  predict_command->add_option(
      "-o,--out", a->out,
      "Also write a page with figures, SVG, CSV and JSON there, for a search, a comparison of "
      "machines or what-ifs");
  predict_command->add_option(
      "--fit", a->engine.fit,
      "Use a fit to your own runs of another engine (isobar fit RUNS.csv --engine E)");
  predict_command->add_flag(
      "--rates", a->rates,
      "Print the step's time by coefficient, with the source of each (accelerators, one layout)");
  predict_command->add_flag("--json", a->json, "Print JSON on stdout instead of tables");
  predict_command->callback([a, predict_command] {
    const bool plans = a->plans(), searches = a->searches();
    const bool foreign = a->engine.foreign() || !a->engine.fit.empty();
    const bool several = a->machines.size() > 1, trains = has_training(a->question);
    const char* one = "is of one machine";
    const char* alone = "leave the others out";
    const char* own = "is answered of Isobar's own engine alone";
    refuse_unused(
        *predict_command,
        {{"--out", !searches && !several && a->what_if.empty(), "is of a search, of machines or of what-ifs",
          "add --gpus N, another --machine or --whatif"},
         {"--out", plans, "is of a search", "leave --deadline and --budget out"},
         {"--out", a->json, "prints where the page is", "leave --json out; DIR/search.json has the data"},
         {"--out", !a->emit.empty(), "is of a search", "leave --emit out"},
         {"--tuned", !foreign, "is of other engines", "name one with --engine"},
         {"--tuned", !a->engine.fit.empty(), "is said by the fit", "give it to isobar fit"},
         {"--fit", several, one, alone},
         {"--rates", foreign, own, "leave it or --engine out"},
         {"--pareto", foreign, own, "leave it or --engine out"},
         {"--offload", foreign, own, "leave it or --engine out"},
         {"--offload", !searches, "is for a search of layouts", "add --gpus N"},
         {"--offload", several, one, alone},
         {"--offload", plans, "is of one number", "leave it out"},
         {"--offload", !a->emit.empty(), "is of a search", "leave --emit out"},
         {"--rates", several, one, alone},
         {"--pareto", several, one, alone},
         {"--whatif", several, one, alone},
         {"--top", several, one, alone},
         {"--deadline", several, one, alone},
         {"--budget", several, one, alone},
         {"--emit", several, one, alone},
         {"--emit", a->question.gpus.size() > 1, "is of one layout", "give one --gpus"},
         {"--emit", plans, "is of one layout", "leave --deadline and --budget out"},
         {"--emit", a->json, "prints no JSON", "leave --json out"},
         {"--emit", trains, "prints no bill", "leave --tokens and --samples out"},
         {"--emit", a->rates, "prints no prices", "leave --rates out"},
         {"--emit", a->question.pareto, "is of one layout", "leave --pareto out"},
         {"--deadline", !trains, "is of a training", "add --tokens or --samples"},
         {"--budget", !trains, "is of a training", "add --tokens or --samples"},
         {"--pareto", plans, "is of one number", "leave it out"},
         {"--top", plans, "is of one number", "leave it out"},
         {"--ranks-on-host", foreign, own, "leave it or --engine out"},
         {"--ranks", searches, "says how many ranks there are, as --gpus does", "keep one of the two"},
         {"--top", !searches, "is for a search of layouts", "add --gpus N"},
         {"--space", !searches, "is for a search of layouts", "add --gpus N"},
         {"--fix", !searches, "is for a search of layouts", "add --gpus N"},
         {"--exclude", !searches, "is for a search of layouts", "add --gpus N"},
         {"--pareto", !searches, "is for a search of layouts", "add --gpus N"},
         {"--rates", searches, "is for one layout", "leave --gpus out"}});
    if (a->global_batch > 0) {
      refuse_contradiction(a->set, "train.global_batch", a->global_batch, "--global-batch");
      a->set.push_back("train.global_batch=" + std::to_string(a->global_batch));
    }
    run_predict(*a);
  });
}

}  // namespace isobar
