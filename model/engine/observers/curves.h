// TensorBoard curves of a running training (run.tensorboard) in RUN/tensorboard, by optimizer step. Tags are
// those of the NERSC example, so that its runs can be compared in one plot:
//
//   every step: Loss/train, RMSE(u10m)/train, Learning Rate, Avg iters per sec, Avg samples per sec,
//     Gradient norm
//   every validation: Loss/valid, RMSE(u10m)/valid of every channel; "Visualization, u10m": a sample
//     predicted, as it came, and the difference (field_picture.h)
//   with validations, checkpoints and the last step: Rank compute (ms)/least, …/most, Rank memory (MB)/most;
//     Power (W), Energy per sample (J) where they are metered
//
// MAE(name) for scalars, Accuracy for classes. A resumed run adds a file to the same curves.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/records/event_file.h"
#include "model/records/records.h"

namespace isobar {

class Curves {
 public:
  Curves() = default;                           // writes nothing
  explicit Curves(const std::string& run_dir);  // throws ConfigError if not writable
  void name(std::vector<std::string> targets) { targets_ = std::move(targets); }
  void add(const StepRecord& s);
  void add(const ValidRecord& v);
  void add(const RanksRecord& r, int64_t global_batch);
  void add_picture(int64_t step, const std::string& png);  // of the first target

 private:
  void put(int64_t step, const std::string& tag, const std::optional<double>& value);
  std::string of(const char* what, size_t channel, const char* part) const;
  std::unique_ptr<EventFile> events_;
  std::vector<std::string> targets_;  // channel names
};

}  // namespace isobar
