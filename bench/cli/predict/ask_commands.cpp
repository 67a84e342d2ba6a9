// isobar search: the best layouts of a net on a number of accelerators; compare: machines side by side, or
// one machine and changes of it; budget: the fewest accelerators that train a net in time and for the money;
// emit: a layout as options or a file of other software.
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/predict/ask.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "perfmodel/ask/choose/emit.h"

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

constexpr const char* kCompareHelp =
    R"(Step time, MFU, memory, price and kWh, and the probability that each beats the first row: of several machines, or of
one machine with each change of --what-if, and with all together. Without --gpus the configuration's layout is taken,
otherwise the best of each machine. `isobar report RUNS OTHER-RUNS` compares measured runs.

Examples:
  isobar compare configs/models/llama3-70b.yaml --machine dgx-h100 --machine dgx-b200 --gpus 64
  isobar compare configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --what-if 'nvlink_bw*2' --what-if price/2
  isobar compare configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --tokens 1T --what-if 'tokens*2')";

constexpr const char* kBudgetHelp =
    R"(Days, price and kWh of a whole training by number of accelerators, each with its best layout, time for failures and
checkpoints included (Young 1974, Daly 2006). The answer is the cheapest that keeps --deadline and --budget 9 times in 10;
what would change it follows. Several machines compete. Without --gpus the numbers are doublings from one host until the
deadline is met, and the eighths below. Prices, watts and failures come from the machine files; what they leave out is
assumed, and printed. -o writes a page with days against money.

Examples:
  isobar budget configs/models/llama3-70b.yaml --machine dgx-h100 --machine dgx-b200 --tokens 1T --deadline 45d --budget 2M -o out
  isobar budget configs/models/llama3-70b.yaml --machine dgx-h100 --tokens 1T --deadline 12d --global-batch 128..2048
  isobar budget configs/models/llama3-70b.yaml --machine dgx-h100 --tokens 1T --deadline 30d --gpus 512 --gpus 768)";

constexpr const char* kEmitHelp =
    R"(Prints the configuration's layout, or with --gpus the best one, as options of Megatron-LM, NeMo or torchtitan, as a
file of DeepSpeed, or as a configuration of Isobar: net, batch, layout and policy. Data, learning rates and paths stay
yours. Layouts are priced for that software and say what it can; a comment gives the predicted step.

Examples:
  isobar emit configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --exclude zero=2..3 --for megatron
  isobar emit configs/models/llama3-8b.yaml --machine dgx-h100 --set layout.tp=2 --for deepspeed > ds_config.json)";

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

void add_compare_command(CLI::App& app) {
  auto a = std::make_shared<AskArguments>();
  CLI::App* command = app.add_subcommand("compare", "Compare machines, or what-ifs of one machine");
  command->footer(kCompareHelp);
  add_run_options(*command, *a, true);
  add_what_if_option(*command, *a);
  add_search_options(*command, *a, false);
  add_rank_options(*command, *a);
  add_training_options(*command, *a);
  add_output_options(*command, *a, true);
  command->callback([a, command] {
    const bool several = a->machines.size() > 1;
    if (!several && a->what_if.empty())
      throw ConfigError("isobar compare", "--machine",
                        "is given once, and there is nothing to compare it with",
                        "give another --machine, or --what-if nvlink_bw*2");
    refuse_unused(*command, {{"--what-if", several, "is of one machine", "leave the others out"}});
    take_options(*command, *a);
    print_comparison(asked(*a));
  });
}

void add_budget_command(CLI::App& app) {
  auto a = std::make_shared<AskArguments>();
  CLI::App* command =
      app.add_subcommand("budget", "Find the fewest accelerators that keep a deadline and a budget");
  command->footer(kBudgetHelp);
  add_run_options(*command, *a, true);
  add_training_options(*command, *a);
  add_limit_options(*command, *a);
  add_search_options(*command, *a, false);
  add_what_if_option(*command, *a);
  add_output_options(*command, *a, true);
  command->callback([a, command] {
    if (!a->plans())
      throw ConfigError("isobar budget", "--deadline", "is missing, and --budget too",
                        "give one of them; without limits: isobar search --gpus N --tokens 1T");
    refuse_unused(*command,
                  {{"--what-if", a->machines.size() > 1, "is of one machine", "leave the others out"}});
    take_options(*command, *a);
    print_schedule(with_all_changes(asked(*a)));
  });
}

void add_emit_command(CLI::App& app) {
  auto a = std::make_shared<AskArguments>();
  CLI::App* command =
      app.add_subcommand("emit", "Print a layout for Megatron, NeMo, torchtitan or DeepSpeed");
  command->footer(kEmitHelp);
  add_run_options(*command, *a);
  command->add_option("--for", a->emit, "The software")
      ->required()
      ->check(CLI::IsMember(perf::emit_targets()));
  add_search_options(*command, *a, false);
  add_rank_options(*command, *a);
  add_what_if_option(*command, *a);
  command->callback([a, command] {
    refuse_unused(*command, {{"--gpus", a->question.gpus.size() > 1,
                              "is given twice, and one layout is printed", "give one --gpus"}});
    take_options(*command, *a);
    print_emitted(with_all_changes(asked(*a)));
  });
}

}  // namespace isobar::cli
