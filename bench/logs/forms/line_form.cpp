#include "bench/logs/forms/line_form.h"

#include <algorithm>
#include <cctype>

#include "bench/logs/log_text.h"

namespace isobar::logs {
namespace {

std::optional<double> read_field(const LineField& field, std::string_view line) {
  for (const std::string& words : field.words) {
    const std::optional<std::string_view> rest = text_after(line, words);
    if (!rest) continue;
    std::string_view behind;
    const std::optional<double> v = number_at(*rest, &behind);
    if (!v) continue;
    const std::string_view printed = rest->substr(0, rest->size() - behind.size());
    if (field.exact && printed.find_first_of("eE") != std::string_view::npos) return std::nullopt;
    return field.factor * *v;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Quantities> read_line(const LineForm& form, std::string_view line) {
  const auto in_line = [&](const std::string& words) { return line.find(words) != std::string_view::npos; };
  if (std::none_of(form.marks.begin(), form.marks.end(), in_line)) return std::nullopt;
  Quantities out;
  for (const LineField& field : form.fields)
    if (const auto v = read_field(field, line)) out[field.quantity] = v;
  out.drop_impossible();
  return out.any() ? std::optional(out) : std::nullopt;
}

// training_log() of megatron/training/training.py; forks print seconds, and rates of their own.
const LineForm& megatron_line() {
  using enum LogQuantity;
  static const LineForm kForm = {{"elapsed time per iteration ("},
                                 {{step, {"iteration "}},
                                  {seconds, {"elapsed time per iteration (s):"}},
                                  {seconds, {"elapsed time per iteration (ms):"}, 1e-3},
                                  {loss, {"lm loss:", "lm_loss:"}},
                                  {batch, {"global batch size:"}},
                                  {consumed_samples, {"consumed samples:"}},
                                  {lr, {"learning rate:"}},
                                  {grad_norm, {"grad norm:"}},
                                  {skipped, {"number of skipped iterations:"}},
                                  {samples_per_s, {"samples per second:", "samples/sec:"}},
                                  {tokens_per_gpu_s, {"tokens per gpu per second (tgs):"}},
                                  {tflops_per_gpu, {"throughput per GPU (TFLOP/s/GPU):", "TFLOPs:"}}}};
  return kForm;
}

const std::vector<LineForm>& megatron_lines() {
  using enum LogQuantity;
  static const std::vector<LineForm> kForms = {
      megatron_line(),
      {{"validation loss at iteration"}, {{valid_loss, {"lm loss value:"}}}},
      {{"max reserved:"}, {{memory_bytes, {"max reserved:"}, kMiB}}}};
  return kForms;
}

// MegatronProgressPrinter of NeMo 2, and the progress bar before it
const LineForm& nemo_line() {
  using enum LogQuantity;
  static const LineForm kForm = {{"train_step_timing in s", "reduced_train_loss"},
                                 {{step, {"global_step:", "global_step="}, 1, true},
                                  {epoch, {"Training epoch", "Epoch"}},
                                  {seconds, {"train_step_timing in s:", "train_step_timing in s="}},
                                  {loss, {"reduced_train_loss:", "reduced_train_loss="}},
                                  {batch, {"global_batch_size:", "global_batch_size="}},
                                  {consumed_samples, {"consumed_samples:", "consumed_samples="}, 1, true},
                                  {lr, {"| lr:", " lr="}},
                                  {grad_norm, {"grad_norm:", "grad_norm="}},
                                  {valid_loss, {"val_loss:", "val_loss="}},
                                  {tokens_per_gpu_s, {"tokens_per_sec_per_gpu:"}},
                                  {tflops_per_gpu, {"TFLOPS_per_GPU:"}}}};
  return kForm;
}

// MetricsProcessor.log(); "wps" until the end of 2024
const LineForm& torchtitan_line() {
  using enum LogQuantity;
  static const LineForm kForm = {{"tps:", "wps:"},
                                 {{step, {"step:"}},
                                  {loss, {"loss:"}},
                                  {grad_norm, {"grad_norm:"}},
                                  {memory_bytes, {"memory:"}, kGiB},
                                  {tokens_per_gpu_s, {"tps:", "wps:"}},
                                  {tflops_per_gpu, {"tflops:"}}}};
  return kForm;
}

// CommonMetricPrinter of detectron2/utils/events.py
const LineForm& detectron_line() {
  using enum LogQuantity;
  static const LineForm kForm = {{" data_time:"},
                                 {{step, {" iter:"}},
                                  {loss, {"total_loss:"}},
                                  {seconds, {"  time:"}},
                                  {lr, {" lr:"}},
                                  {memory_bytes, {"max_mem:"}, kMiB}}};
  return kForm;
}

bool names_another_step(std::string_view line) {
  const size_t at = line.find("step:");
  if (at == std::string_view::npos || at == 0) return false;
  const size_t before = line.find_last_not_of(" \t", at - 1);
  return before != std::string_view::npos && std::isalpha(static_cast<unsigned char>(line[before])) != 0;
}

// DeepSpeedEngine._report_progress(), PipelineEngine.train_batch(), ThroughputTimer.stop()
const std::vector<LineForm>& deepspeed_lines() {
  using enum LogQuantity;
  static const std::vector<LineForm> kForms = {
      {{"skipped="}, {{step, {"] step="}}, {skipped_so_far, {"skipped="}}, {lr, {"lr=["}}}},
      {{"iter time (s):"},
       {{step, {"steps:"}},
        {loss, {"loss:"}},
        {seconds, {"iter time (s):"}},
        {samples_per_s, {"samples/sec:"}}}},
      {{"CurrSamplesPerSec="},
       {{step, {"global_step="}},
        {computed_samples_per_s, {"CurrSamplesPerSec="}},
        {memory_bytes, {"MaxMemAllocated="}, kGiB}}}};
  return kForms;
}

// Dicts as Python prints them, with numbers as texts since version 5
const std::vector<LineForm>& trainer_lines() {
  using enum LogQuantity;
  const auto key = [](const std::string& name) {
    return std::vector<std::string>{"'" + name + "': '", "'" + name + "':"};
  };
  static const std::vector<LineForm> kForms = {
      {{"'train_steps_per_second':"},
       {{train_s, key("train_runtime")},
        {train_samples_per_s, key("train_samples_per_second")},
        {train_steps_per_s, key("train_steps_per_second")}}},
      {{"{'loss':"},
       {{loss, key("loss")},
        {grad_norm, key("grad_norm")},
        {lr, key("learning_rate")},
        {epoch, key("epoch")}}},
      {{"'eval_loss':"}, {{valid_loss, key("eval_loss")}, {valid_s, key("eval_runtime")}}}};
  return kForms;
}

}  // namespace isobar::logs
