// isobar search: the best layouts of a net on a number of accelerators.
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/predict/ask_options.h"

namespace isobar::cli {
namespace {

constexpr const char* kSearchHelp =
    R"(Prices every layout, policy and placement on this many accelerators, prints the best with its step term by term, those
that cannot be told apart from it, and what would have to change for another to be the best.

Layouts are ranked by step time divided by the probability that they fit in memory. layout.* and policy.* of --set are
kept; the file's own layout is ignored. --fix and --exclude take dp, tp, cp, pp, vpp, micro_batch, zero (numbers and
ranges like 2..8), schedule, recompute, cp_kind, order, sequence_parallel (words). With --engine the layouts found for
Isobar's own engine are predicted again for that one and ranked anew. Where nothing fits: exit code 4.

Examples:
  isobar search configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --gpus 256 --tokens 1T
  isobar search configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --fix tp=2..8 --exclude zero=3 -o out
  isobar search configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --engine nemo)";

}  // namespace

void add_search_command(CLI::App& app) {
  auto a = std::make_shared<AskArguments>();
  CLI::App* command = app.add_subcommand("search", "Search all layouts on a number of accelerators");
  command->footer(kSearchHelp);
  add_run_options(*command, *a);
  add_search_options(*command, *a, true);
  command->add_option("--top", a->question.top, "Layouts to list")->check(CLI::Range(1, 1000));
  command->add_flag("--all", a->question.all, "List every layout that may be the fastest");
  command->add_flag("--pareto", a->question.pareto, "Also the Pareto front of time and memory");
  command->add_flag("--offload", a->question.offload,
                    "Also the best layouts with moments, and with parameters, in host memory");
  add_training_options(*command, *a);
  add_what_if_option(*command, *a);
  add_output_options(*command, *a, true);
  command->callback([a, command] {
    take_options(*command, *a);
    print_with_changes(asked(*a), print_search);
  });
}

}  // namespace isobar::cli
