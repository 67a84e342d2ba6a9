#include "bench/cli/predict/ask_options.h"

#include "bench/cli/words/config_option.h"
#include "bench/cli/words/machine_option.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"

namespace isobar {
namespace {

constexpr const char *kRun = "Run, machine and engine", *kOutput = "Output";

// An option that the command has, and that was given.
bool given(const CLI::App& command, const std::string& option) {
  const CLI::Option* o = command.get_option_no_throw(option);
  return o && o->count() > 0;
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
  command.add_option("--global-batch", a.global_batch, "Samples per optimizer step")
      ->check(CLI::Range(1, 1 << 24))
      ->group(kRun);
  command
      .add_option("--engine", a.engine.engine,
                  "Training software to predict: isobar, a file of configs/engines, or unknown")
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
  const bool foreign = a.engine.foreign() || !a.engine.fit.empty(), trains = has_training(a.question);
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
      {"--out", a.json, "prints where the page is", "leave --json out; DIR/search.json has the data"}};
  for (const Unused& u : unused)
    if (u.unused && given(command, u.option))
      throw ConfigError("isobar " + command.get_name(), u.option, u.what, u.mend);
  if (a.global_batch == 0) return;
  refuse_contradiction(a.set, "train.global_batch", a.global_batch, "--global-batch");
  a.set.push_back("train.global_batch=" + std::to_string(a.global_batch));
}

}  // namespace isobar
