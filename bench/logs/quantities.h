// Numbers that trainings print, by what they are, and the names that programs give them.
//
//   Quantities q;
//   q[LogQuantity::loss] = 0.25;
//   quantity_of_key("train/loss");        // loss, for keys of JSON, columns of CSV, tags of TensorBoard,
//   bars quantity_of_word("ms");               // seconds, times 1e-3: words of a line of one's own
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isobar::logs {

inline constexpr double kMiB = 1024.0 * 1024, kGiB = 1024 * kMiB;

enum class LogQuantity : uint8_t {
  step,
  micro_step,  // a larger count beside the step's, such as batches whose gradients a step adds up
  epoch,
  steps_in_all,  // "/600" behind the step: those of an epoch, or of the training
  loss,
  seconds,                 // of a step
  samples_per_s,           // of all ranks
  computed_samples_per_s,  // without the time between steps, such as the loader's
  tokens_per_s,
  tokens_per_gpu_s,
  tflops_per_gpu,
  steps_per_s,
  lr,
  grad_norm,
  memory_bytes,
  batch,             // samples of a step
  consumed_samples,  // since the beginning
  skipped,           // steps without an update since the last line
  skipped_so_far,
  epoch_s,
  valid_loss,
  valid_accuracy,
  valid_s,
  train_s,  // the whole training, and its means
  train_samples_per_s,
  train_steps_per_s,
  count_,
};

class Quantities {
 public:
  std::optional<double>& operator[](LogQuantity q) { return at_[static_cast<size_t>(q)]; }
  const std::optional<double>& operator[](LogQuantity q) const { return at_[static_cast<size_t>(q)]; }
  bool has(LogQuantity q) const { return (*this)[q].has_value(); }
  bool any() const;
  /// Takes from `other` what this lacks.
  void fill_from(const Quantities& other);
  /// Drops what no training has: negative times, infinite rates. Losses may be anything.
  void drop_impossible();
  /// Leaves what a validation says: its place in the training, and its loss.
  void keep_validation();
  /// A count of steps, by its key: "iter" beside a smaller "step" is a micro_step.
  void put_step(std::string_view key, double v);

 private:
  bool step_by_iter_ = false;
  std::array<std::optional<double>, static_cast<size_t>(LogQuantity::count_)> at_;
};

struct QuantityIn {
  LogQuantity quantity;
  double factor = 1;  // of the number as printed
};

/// The quantity that a key names, as engines and loggers write it: "train/loss", "val_loss", "lr-AdamW".
std::optional<QuantityIn> quantity_of_key(std::string_view key);
bool is_validation(std::string_view word);
/// True for the words before a line's numbers that make it one of a validation: "eval metrics after step ",
/// "INFO - [val] iter ". A word of a file's or logger's name ("eval.py:12") is none.
bool begins_validation(std::string_view text);
/// A word of a line of one's own, and all of them.
std::optional<QuantityIn> quantity_of_word(const std::string& word);
std::vector<std::string> quantity_words();

}  // namespace isobar::logs
