#include "bench/logs/readers.h"

#include <algorithm>

#include "bench/logs/forms/forms.h"
#include "bench/logs/forms/json_line.h"
#include "bench/logs/forms/line_form.h"
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

Named all_readers(const ReaderUse& use) {
  return {{"mlperf", mlperf_lines(use.batch, use.tokens)},
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
          {"aurora-jax", own_line("Step {step} - Multi-GPU training progress", use.file)},
          {"regional-gnn", own_line("Step {step}: train_loss={loss}, val_loss={valid_loss}", use.file)},
          {"ufs", own_line("Epoch {epoch}/* - Train: {loss}, Val: {valid_loss}", use.file)},
          {"lines", free_line}};
}

std::vector<std::string> reader_names() {
  std::vector<std::string> out = {"auto", "lightning"};
  for (const auto& [name, reader] : all_readers({})) out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Named readers_named(const std::string& reads, const ReaderUse& use) {
  Named all = all_readers(use), out;
  const bool bar = reads == "lightning" || reads == "trainer" || reads == "nemo";
  for (auto& one : all)
    if (reads == "auto" || one.first == reads || (bar && one.first == "tqdm")) out.push_back(std::move(one));
  if (!out.empty()) return out;
  if (describes_a_line(reads)) return {{"'" + reads + "'", own_line(reads, use.file)}};
  throw ConfigError(
      use.file, "run.reads", "is '" + reads + "', which is no reader and has no {step}",
      did_you_mean(reads, reader_names(),
                   "or write a line as the program prints it: \"step {step} loss {loss} * {ms} ms\""));
}

}  // namespace isobar::logs
