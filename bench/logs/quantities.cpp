#include "bench/logs/quantities.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <utility>

#include "bench/logs/log_text.h"

namespace isobar::logs {
namespace {

constexpr double kMostSteps = 9e15;  // a double counts no further

using Table = std::map<std::string, QuantityIn, std::less<>>;

const Table& keys() {
  using enum LogQuantity;
  static const Table kTable = {
      {"step", {step}},
      {"global_step", {step}},
      {"trainer/global_step", {step}},
      {"iteration", {step}},
      {"iter", {step}},
      {"num_updates", {step}},
      {"epoch", {epoch}},
      {"loss", {loss}},
      {"train_loss", {loss}},
      {"reduced_train_loss", {loss}},
      {"samples/train_loss", {loss}},
      {"lm loss", {loss}},
      {"lm_loss", {loss}},
      {"total_loss", {loss}},
      {"seconds", {seconds}},
      {"step_time", {seconds}},
      {"step_s", {seconds}},
      {"step_time_s", {seconds}},
      {"iter_time", {seconds}},
      {"iteration-time", {seconds}},
      {"step_timing in s", {seconds}},
      {"train_step_timing in s", {seconds}},
      {"ms", {seconds, 1e-3}},
      {"step_ms", {seconds, 1e-3}},
      {"step_time_ms", {seconds, 1e-3}},
      {"elapsed_time_per_iteration_ms", {seconds, 1e-3}},
      {"samples_per_s", {samples_per_s}},
      {"samples_per_sec", {samples_per_s}},
      {"samples_per_second", {samples_per_s}},
      {"samples/sec", {samples_per_s}},
      {"avg samples per sec", {samples_per_s}},
      {"images_per_sec", {samples_per_s}},
      {"throughput", {samples_per_s}},
      {"tokens_per_s", {tokens_per_s}},
      {"tokens_per_sec", {tokens_per_s}},
      {"tokens_per_second", {tokens_per_s}},
      {"tps", {tokens_per_s}},
      {"tok/s", {tokens_per_s}},
      {"tok/sec", {tokens_per_s}},
      {"tokens/s", {tokens_per_s}},
      {"tokens/sec", {tokens_per_s}},
      {"tokens_per_sec_per_gpu", {tokens_per_gpu_s}},
      {"tokens_per_second_per_gpu", {tokens_per_gpu_s}},
      {"tokens/s/gpu", {tokens_per_gpu_s}},
      {"tokens/s/device", {tokens_per_gpu_s}},
      {"throughput/device/tokens_per_second", {tokens_per_gpu_s}},
      {"throughput/device/tokens_per_sec", {tokens_per_gpu_s}},
      {"steps_per_s", {steps_per_s}},
      {"steps_per_sec", {steps_per_s}},
      {"steps_per_second", {steps_per_s}},
      {"timing/steps_per_second", {steps_per_s}},
      {"ups", {steps_per_s}},
      {"batches_per_sec", {steps_per_s}},
      {"avg iters per sec", {steps_per_s}},
      {"lr", {lr}},
      {"learning_rate", {lr}},
      {"learning-rate", {lr}},
      {"learning rate", {lr}},
      {"samples/lr", {lr}},
      {"grad_norm", {grad_norm}},
      {"grad-norm", {grad_norm}},
      {"gnorm", {grad_norm}},
      {"gradient_norm", {grad_norm}},
      {"memory_gb", {memory_bytes, kGiB}},
      {"global_batch_size", {batch}},
      {"consumed_samples", {consumed_samples}},
  };
  return kTable;
}

const Table& words() {
  using enum LogQuantity;
  static const Table kTable = {{"step", {step}},
                               {"epoch", {epoch}},
                               {"loss", {loss}},
                               {"seconds", {seconds}},
                               {"ms", {seconds, 1e-3}},
                               {"samples_per_s", {samples_per_s}},
                               {"tokens_per_s", {tokens_per_s}},
                               {"steps_per_s", {steps_per_s}},
                               {"lr", {lr}},
                               {"grad_norm", {grad_norm}},
                               {"memory_gb", {memory_bytes, kGiB}},
                               {"batch", {batch}},
                               {"valid_loss", {valid_loss}},
                               {"valid_s", {valid_s}}};
  return kTable;
}

bool take_prefix(std::string_view& key, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view p : prefixes)
    if (key.starts_with(p)) {
      key.remove_prefix(p.size());
      return true;
    }
  return false;
}
bool take_suffix(std::string_view& key, std::initializer_list<std::string_view> suffixes) {
  for (const std::string_view s : suffixes)
    if (key.size() > s.size() && key.ends_with(s)) {
      key.remove_suffix(s.size());
      return true;
    }
  return false;
}

}  // namespace

bool is_validation(std::string_view word) {
  static constexpr std::array<std::string_view, 9> kWords = {
      "val", "valid", "validation", "validating", "eval", "evaluation", "evaluating", "test", "testing"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view known) {
    return std::equal(word.begin(), word.end(), known.begin(), known.end(),
                      [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
  });
}

bool begins_validation(std::string_view text) {
  const auto letter = [&](size_t i) {
    const char c = text[i];
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '/' || c == '.';
  };
  bool first = true;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!letter(i)) continue;
    const size_t begin = i;
    while (i < text.size() && letter(i)) ++i;
    const std::string_view word = text.substr(begin, i - begin);
    // "test" may be the name of a run
    const bool name = word.size() == 4 && std::tolower(static_cast<unsigned char>(word[0])) == 't';
    // "best val 3.25 | step" names a number
    const size_t value = text.find_first_not_of(" :=", i), end = text.find_first_not_of("0123456789", value);
    const bool key = value < end && end < text.size() && text[end] == '.';
    if (is_validation(word) && (first || !name) && !key) return true;
    first = false;
  }
  return false;
}

bool Quantities::any() const {
  return std::any_of(at_.begin(), at_.end(), [](const auto& x) { return x.has_value(); });
}

void Quantities::fill_from(const Quantities& other) {
  for (size_t i = 0; i < at_.size(); ++i)
    if (!at_[i]) at_[i] = other.at_[i];
}

void Quantities::keep_validation() {
  using enum LogQuantity;
  const Quantities all = std::exchange(*this, {});
  (*this)[step] = all[step];
  (*this)[epoch] = all[epoch];
  (*this)[valid_loss] = all[valid_loss] ? all[valid_loss] : all[loss];
  (*this)[valid_accuracy] = all[valid_accuracy];
}

void Quantities::put_step(std::string_view key, double v) {
  std::optional<double>& own = (*this)[LogQuantity::step];
  const bool iter = key.size() >= 4 && std::tolower(static_cast<unsigned char>(key.front())) == 'i';
  if (!own) {
    own = v, step_by_iter_ = iter;
  } else if (iter != step_by_iter_) {
    const double steps = iter ? *own : v, iterations = iter ? v : *own;
    own = steps, step_by_iter_ = false;
    if (iterations > steps) (*this)[LogQuantity::micro_step] = iterations;
  }
}

void Quantities::drop_impossible() {
  for (size_t i = 0; i < at_.size(); ++i) {
    const auto q = static_cast<LogQuantity>(i);
    if (q == LogQuantity::loss || q == LogQuantity::valid_loss || q == LogQuantity::grad_norm || !at_[i])
      continue;
    if (!std::isfinite(*at_[i]) || *at_[i] < 0 || *at_[i] > kMostSteps) {
      const bool bytes = q == LogQuantity::memory_bytes && std::isfinite(*at_[i]) && *at_[i] > 0;
      if (!bytes) at_[i].reset();
    }
  }
}

std::optional<QuantityIn> quantity_of_key(std::string_view written) {
  const std::string lower = lower_case(written);
  std::string_view key = lower;
  if (key.starts_with("lr-")) return QuantityIn{LogQuantity::lr};  // Lightning's LearningRateMonitor
  if (const auto at = keys().find(key); at != keys().end()) return at->second;
  const bool valid = take_prefix(key, {"val/", "val_", "valid/", "valid_", "validation/", "validation_",
                                       "eval/", "eval_"}) ||
                     take_suffix(key, {"/valid", "/val", "/validation", "/eval", " validation"});
  if (valid) {
    if (key == "loss" || key == "lm loss" || key == "loss_epoch") return QuantityIn{LogQuantity::valid_loss};
    if (key == "accuracy" || key == "acc") return QuantityIn{LogQuantity::valid_accuracy};
    if (key == "runtime") return QuantityIn{LogQuantity::valid_s};
    return std::nullopt;
  }
  take_prefix(key, {"train/", "training/"});
  take_suffix(key, {"/train"});
  if (const auto at = keys().find(key); at != keys().end()) return at->second;
  take_suffix(key, {"_step"});
  const auto at = keys().find(key);
  return at == keys().end() ? std::nullopt : std::optional(at->second);
}

std::optional<QuantityIn> quantity_of_word(const std::string& word) {
  const auto at = words().find(word);
  return at == words().end() ? std::nullopt : std::optional(at->second);
}

std::vector<std::string> quantity_words() {
  std::vector<std::string> out;
  for (const auto& [word, quantity] : words()) out.push_back(word);
  return out;
}

}  // namespace isobar::logs
