// A trained net on this host's cores, a batch at a time: the eval program of the plan that trains it, with a
// checkpoint's weights, on one rank.
//
//   const CheckpointState state = read_state(checkpoint);
//   Forecaster net(checkpoint, state, 4, threads);
//   net(input, target, prediction);              // normalised, [4, …] each
//   net.errors()[0]                              // of channel 0: what a validation of this batch would say
//   net([&](float* to, int64_t n) { std::copy_n(input, n, to); }, prediction);  // the same prediction, where
//                                                                               // nobody knows the target
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "model/backend/cpu/cpu_backend.h"
#include "model/inference/arena.h"
#include "model/inference/checkpoint_state.h"
#include "model/inference/one_rank.h"

namespace isobar {

class Forecaster {
 public:
  /// Throws ConfigError for a checkpoint whose weights are not there, not whole or of another net.
  Forecaster(const std::filesystem::path& checkpoint, const CheckpointState& state, int64_t batch,
             int threads);
  /// The same net for another batch; files are not read again.
  Forecaster(const Forecaster& same, int64_t batch, int threads);
  Forecaster(const Forecaster&) = delete;
  Forecaster& operator=(const Forecaster&) = delete;
  /// input [batch, in, H, W], target and prediction [batch, out, H, W], all normalised. Of a net that
  /// classifies the target is the class, [batch], and the prediction the logits, [batch, classes].
  /// `mask` [batch, out, H, W], of a net trained with one (reads_mask): 1 where the target counts, else 0.
  void operator()(const float* input, const float* target, float* prediction, const float* mask = nullptr);
  bool reads_mask() const;
  /// Writes the batch's input, so many numbers, to where the net reads it.
  using Fill = std::function<void(float* input, int64_t count)>;
  /// The same prediction to the last bit, without the ops that only the loss needs.
  void operator()(const Fill& input, float* prediction);
  /// When the samples of the next batches are, hours since 1970 [batch]: of a net that reads it, which
  /// forecasts nothing before it is told.
  void at(std::vector<double> hours) { hours_ = std::move(hours); }
  bool reads_times() const;
  /// Of the last batch that had a target, and the errors too
  double loss() const;
  /// By channel: the RMSE of fields, the mean absolute error of an mlp's numbers, normalised; of classes the
  /// accuracy.
  std::vector<double> errors() const;
  const std::string& error_name() const { return plan_.metrics_named.at(1).name; }
  const float* weights() const { return floats(plan_.params_all); }  // in the order of a plan on one rank
  int64_t batch() const { return spec_.micro_batch(); }
  struct Shape {
    int64_t channels, height, width;  // one point of a net of numbers
    int64_t size() const { return channels * height * width; }
  };
  Shape input() const;  // of a sample
  /// … and of a prediction: NaN where the net predicts nothing
  Shape output() const;
  /// Of a net that predicts for a part of its grid: that part
  std::optional<GridBox> region() const;

 private:
  Forecaster(const RunSpec& spec, int64_t batch, int threads);  // without weights
  void compute(const InOrder& ops, const Fill& input, const float* target, const float* mask,
               float* prediction);
  void take(float* prediction) const;  // out of the patches that it lies in
  float* floats(const View& v) const { return reinterpret_cast<float*>(backend_.at(v)); }

  const RunSpec spec_;
  const Plan plan_;
  const View predicted_;  // what the loss reads
  const Attrs patches_;
  const InOrder eval_, predict_;  // predict_: of eval_, what the prediction needs
  Arena arena_;
  CpuBackend backend_;
  std::vector<double> hours_;
};

}  // namespace isobar
