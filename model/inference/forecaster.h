// Runs a trained net on this host's cores, a batch at a time: the eval program of its training plan on one
// rank, with a checkpoint's weights.
//
//   const CheckpointState state = read_state(checkpoint);
//   Forecaster net(checkpoint, state, 4, threads);
//   net(input, target, prediction);              // normalised, [4, …] each
//   net.errors()[0]                              // of channel 0, as a validation reports it
//   net([&](float* to, int64_t n) { std::copy_n(input, n, to); }, prediction);  // the same without a target
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "model/backend/cpu/cpu_backend.h"
#include "model/inference/arena.h"
#include "model/inference/one_rank.h"
#include "model/inference/weights/checkpoint_state.h"

namespace isobar::inference {

class Forecaster {
 public:
  /// Throws ConfigError when the checkpoint's weights are absent, damaged or of another net.
  Forecaster(const std::filesystem::path& checkpoint, const CheckpointState& state, int64_t batch,
             int threads);
  /// The same net for another batch size, without reading files again.
  Forecaster(const Forecaster& same, int64_t batch, int threads);
  Forecaster(const Forecaster&) = delete;
  Forecaster& operator=(const Forecaster&) = delete;
  /// input [batch, in, H, W], target and prediction [batch, out, H, W], all normalised; a classifier has
  /// classes [batch] as target and logits [batch, classes] as prediction. `mask` [batch, out, H, W], if
  /// reads_mask(): 1 where the target counts, else 0.
  void operator()(const float* input, const float* target, float* prediction, const float* mask = nullptr);
  bool reads_mask() const;
  /// Writes the batch's input, `count` values, into the net's input buffer.
  using Fill = std::function<void(float* input, int64_t count)>;
  /// The same prediction, bit for bit, without the ops that only the loss needs.
  void operator()(const Fill& input, float* prediction);
  /// Sets the times of the next batches' samples, hours since 1970 [batch]; required before a forecast when
  /// reads_times().
  void at(std::vector<double> hours) { hours_ = std::move(hours); }
  bool reads_times() const;
  /// Loss of the last batch with a target; errors() likewise
  double loss() const;
  /// By channel, normalised: RMSE of fields, mean absolute error of an mlp's outputs; accuracy of a
  /// classifier.
  std::vector<double> errors() const;
  const std::string& error_name() const { return plan_.metrics_named.at(1).name; }
  const float* weights() const { return floats(plan_.params_all); }  // in the order of a one-rank plan
  int64_t batch() const { return spec_.micro_batch(); }
  struct Shape {
    int64_t channels, height, width;  // height = width = 1 for a net on table rows
    int64_t size() const { return channels * height * width; }
  };
  Shape input() const;  // of a sample
  /// of a prediction; NaN outside the predicted region
  Shape output() const;
  /// The part of the grid that the net predicts, if not all
  std::optional<GridBox> region() const;

 private:
  Forecaster(const RunSpec& spec, int64_t batch, int threads);  // without weights
  void compute(const InOrder& ops, const Fill& input, const float* target, const float* mask,
               float* prediction);
  void take(float* prediction) const;  // from patches to [batch, out, H, W]
  float* floats(const plan::View& v) const { return reinterpret_cast<float*>(backend_.at(v)); }

  const RunSpec spec_;
  const plan::Plan plan_;
  const plan::View predicted_;  // what the loss reads
  const plan::ImageAttrs patches_;
  const InOrder eval_, predict_;  // predict_: the part of eval_ that the prediction needs
  Arena arena_;
  CpuBackend backend_;
  std::vector<double> hours_;
};

}  // namespace isobar::inference
