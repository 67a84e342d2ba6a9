// isobar compare: machines side by side, or one machine and changes of it.
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/predict/ask_options.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"

namespace isobar::cli {
namespace {

constexpr const char* kCompareHelp =
    R"(Step time, MFU, memory, price and kWh, and the probability that each beats the first row: of several machines, or of
one machine with each change of --what-if, and with all together. Without --gpus the configuration's layout is taken,
otherwise the best of each machine. `isobar report RUNS OTHER-RUNS` compares measured runs.

Examples:
  isobar compare configs/models/llama3-70b.yaml --machine dgx-h100 --machine dgx-b200 --gpus 64
  isobar compare configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --what-if 'nvlink_bw*2' --what-if price/2
  isobar compare configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --tokens 1T --what-if 'tokens*2')";

}  // namespace

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

}  // namespace isobar::cli
