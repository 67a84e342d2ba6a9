// isobar emit: a layout as options or a file of other software.
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/predict/ask_options.h"
#include "bench/cli/words/options.h"
#include "perfmodel/ask/choose/emit.h"

namespace isobar::cli {
namespace {

constexpr const char* kEmitHelp =
    R"(Prints the configuration's layout, or with --gpus the best one, as options of Megatron-LM, NeMo or torchtitan, as a
file of DeepSpeed, or as a configuration of Isobar: net, batch, layout and policy. Data, learning rates and paths stay
yours. Layouts are priced for that software and say what it can; a comment gives the predicted step.

Examples:
  isobar emit configs/models/llama3-70b.yaml --machine dgx-h100 --gpus 64 --exclude zero=2..3 --for megatron
  isobar emit configs/models/llama3-8b.yaml --machine dgx-h100 --set layout.tp=2 --for deepspeed > ds_config.json)";

}  // namespace

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
