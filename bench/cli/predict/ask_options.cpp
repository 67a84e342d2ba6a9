#include "bench/cli/predict/ask_options.h"

#include <charconv>

#include "bench/cli/words/options.h"
#include "model/base/error.h"

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

}  // namespace isobar::cli
