// The readers that run.reads names. Each takes the lines that it knows, and keeps what one line says about
// the next:
//
//   auto        all of them, by line
//   json        objects of JSON with a step, and keys as loggers name them (quantities.h)
//   megatron    Megatron-LM and its forks            nemo        NeMo, 1 and 2
//   torchtitan  "step: 10  loss:  8.1  …  tps: 1,234"
//   deepspeed   its engine, pipeline engine and timer
//   trainer     Hugging Face's Trainer: its bar and its dicts
//   lightning   its progress bar; tqdm: any other of a training
//   timm        and others that count batches in brackets: torchvision, mmcv, mmengine, Swin
//   detectron2  "iter: 19  total_loss: 0.9  time: 0.4012  …  max_mem: 5567M"
//   composer    blocks of Composer, llm-foundry and OLMo: a step, and then a number a line
//   mlperf      ":::MLLOG" events                    nersc       NERSC's ViT: a line an epoch
//   aurora-jax, regional-gnn, ufs                    three further codes of weather models
//   lines       "step 12 … loss 0.5 … 33.1 ms", the names and units in any order
//   csv:PATH, tensorboard:PATH    files that the program writes (followed_files.h)
//   a line of one's own (own_line)
//
// run.reads may hold several, a line each.
#include <algorithm>

#include "bench/logs/forms/forms.h"
#include "bench/logs/forms/json_line.h"
#include "bench/logs/forms/line_form.h"
#include "bench/logs/output_reader.h"
#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"

namespace isobar::logs {
namespace {

using Named = std::vector<std::pair<std::string, LineReader>>;

LineReader first_of(const std::vector<LineForm>& forms) {
  return [&forms](std::string_view line) {
    std::optional<Quantities> q;
    for (const LineForm& form : forms)
      if (!q) q = read_line(form, line);
    return q;
  };
}

/// Progress bars of NeMo 1 round their step, and count it in the bar.
std::optional<Quantities> nemo(std::string_view line) {
  const auto q = read_line(nemo_line(), line);
  return q && q->has(LogQuantity::step) ? q : std::nullopt;
}

std::optional<Quantities> torchtitan(std::string_view line) {
  auto q = read_line(torchtitan_line(), line);
  if (!q || !q->has(LogQuantity::step)) return std::nullopt;
  if (!names_another_step(line)) return q;
  Quantities valid;  // "validate step:"
  valid[LogQuantity::valid_loss] = (*q)[LogQuantity::loss];
  return valid;
}

/// Hugging Face's dicts name no step; "Step 10: {'loss': 2.5}" is of another program.
std::optional<Quantities> trainer(std::string_view line) {
  if (looks_like_a_step(line.substr(0, line.find("{'")))) return std::nullopt;
  return first_of(trainer_lines())(line);
}

std::optional<Quantities> detectron(std::string_view line) {
  const auto q = read_line(detectron_line(), line);
  return q && q->has(LogQuantity::step) && q->has(LogQuantity::loss) ? q : std::nullopt;
}

Named all_readers(const OutputOptions& o) {
  return {{"mlperf", mlperf_lines(static_cast<double>(o.batch), static_cast<double>(o.tokens))},
          {"json", json_line},
          {"megatron", first_of(megatron_lines())},
          {"nemo", nemo},
          {"torchtitan", torchtitan},
          {"deepspeed", first_of(deepspeed_lines())},
          {"trainer", trainer},
          {"timm", counted_line},
          {"detectron2", detectron},
          {"composer", block_lines()},
          {"tqdm", bar_lines()},
          {"nersc", nersc_lines()},
          {"aurora-jax", own_line("Step {step} - Multi-GPU training progress", o.file)},
          {"regional-gnn", own_line("Step {step}: train_loss={loss}, val_loss={valid_loss}", o.file)},
          {"ufs", own_line("Epoch {epoch}/* - Train: {loss}, Val: {valid_loss}", o.file)},
          {"lines", free_line}};
}

std::vector<std::string> reader_names() {
  std::vector<std::string> out = {"auto", "lightning"};
  for (const auto& [name, reader] : all_readers({})) out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Named readers_named(const std::string& reads, const OutputOptions& o) {
  Named all = all_readers(o), out;
  const bool bar = reads == "lightning" || reads == "trainer" || reads == "nemo";
  for (auto& one : all)
    if (reads == "auto" || one.first == reads || (bar && one.first == "tqdm")) out.push_back(std::move(one));
  if (!out.empty()) return out;
  if (describes_a_line(reads)) return {{"'" + reads + "'", own_line(reads, o.file)}};
  throw ConfigError(
      o.file, "run.reads", "is '" + reads + "', which is no reader and has no {step}",
      did_you_mean(reads, reader_names(),
                   "or write a line as the program prints it: \"step {step} loss {loss} * {ms} ms\""));
}

}  // namespace isobar::logs
