// isobar budget: the fewest accelerators that train a net in time and for the money.
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/predict/ask_options.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"

namespace isobar::cli {
namespace {

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

}  // namespace

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

}  // namespace isobar::cli
