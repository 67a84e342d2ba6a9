// isobar export: a run's weights as one safetensors file, for PyTorch, or to initialise other runs.
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "model/base/text/json.h"
#include "model/engine/host/host.h"
#include "model/inference/weights/open_checkpoint.h"
#include "model/inference/weights/published_weights.h"

namespace isobar::cli {

void add_export_command(CLI::App& app) {
  struct Arguments {
    std::string from, out;
    bool force = false, json = false, published = false, apart = false, bf16 = false;
    double file_gb = 5;
  };
  const auto a = std::make_shared<Arguments>();
  CLI::App* const command = app.add_subcommand(
      "export", "Write a checkpoint's weights as one safetensors file, low-rank adapters merged into them");
  command->add_option("RUN", a->from, "A run's directory (its last checkpoint), or one checkpoint")
      ->required();
  command->add_option("-o,--out", a->out, "File to write, e.g. merged.safetensors")->required();
  command->add_flag("--published", a->published,
                    "With the names and shapes of the program that the net was published with (aurora: "
                    "microsoft-aurora's; gpt and llama: transformers', with config.json beside them)");
  command
      ->add_flag("--keep-adapters", a->apart,
                 "With --published: adapters stay apart, as that program has them (aurora: use_lora)")
      ->needs("--published");
  command->add_flag("--bf16", a->bf16, "With --published: weights are rounded to bf16")->needs("--published");
  command
      ->add_option("--file-gb", a->file_gb,
                   "With --published: GB of weights beyond which there are several files beside an index")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->needs("--published");
  command->add_flag("--force", a->force, "Replace the file");
  command->add_flag("--json", a->json, "Print JSON on stdout");
  command->footer(
      "Examples:\n  isobar export runs/first -o first.safetensors\n"
      "  isobar export runs/gpt --published -o gpt/model.safetensors   # from_pretrained(\"gpt\") reads it\n"
      "  isobar export runs/aurora --published -o theirs.safetensors\n"
      "  isobar train CONFIG --set train.init_from=first.safetensors");
  command->callback([a] {
    refuse_to_replace(a->out, a->force);
    const std::filesystem::path checkpoint = inference::find_checkpoint(a->from, "RUN");
    inference::Meeting one;
    one.threads = engine::cores();
    const inference::OpenCheckpoint opened(checkpoint, inference::CheckpointPart::weights, one);
    const inference::CheckpointState& state = opened.state();
    const inference::TrainedWeights weights(opened);
    if (a->published && state.spec.net.words())
      refuse_to_replace((std::filesystem::path(a->out).parent_path() / "config.json").string(), a->force);
    const inference::PublishedFiles how{
        .adapters = a->apart ? inference::Adapters::apart : inference::Adapters::merged,
        .type = a->bf16 ? DType::bf16 : DType::f32,
        .most_bytes = static_cast<int64_t>(a->file_gb * 1e9)};
    const int64_t adapters =
        a->published ? inference::write_published(state.spec, weights, a->out, how) : weights.write(a->out);
    const char* const which = weights.averaged() ? "the moving average" : "the last step's";
    if (a->json)
      std::cout << json_text(nlohmann::json{{"checkpoint", checkpoint.string()},
                                            {"out", a->out},
                                            {"step", state.train.step},
                                            {"average", weights.averaged()},
                                            {"published", a->published},
                                            {"merged", a->apart ? 0 : adapters},
                                            {"apart", a->apart ? adapters : 0}},
                             2)
                << "\n";
    else
      std::printf(
          "checkpoint  %s, after step %ld\nweights     %s\n%-12s%ld weights with their adapters\nwritten     "
          "%s\n",
          checkpoint.c_str(), state.train.step, which, a->apart ? "apart" : "merged", adapters,
          a->out.c_str());
  });
}

}  // namespace isobar::cli
