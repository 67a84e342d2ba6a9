// The weights of a checkpoint for use: those of the model, or their moving average if the run validates with
// it, with low-rank adapters (nets/transformer/adapter.h) merged as W + s B A.
//
//   const TrainedWeights weights(OpenCheckpoint(checkpoint, CheckpointPart::weights, {}));
//   weights.load(plan, params);                      // a plan on one rank, without adapters
//   weights.write("merged.safetensors");
#pragma once
#include <memory>
#include <optional>

#include "model/inference/weights/open_checkpoint.h"
#include "model/plan/plan.h"

namespace isobar::inference {

class TrainedWeights {
 public:
  /// Takes those of a checkpoint whose weights are open (CheckpointPart::weights)
  explicit TrainedWeights(const OpenCheckpoint& checkpoint);
  /// From a file that holds all weights
  TrainedWeights(const std::filesystem::path& file, double scale);

  std::string path() const { return model_->path().string(); }
  int64_t adapters() const;  // number of tensors with an adapter
  bool averaged() const { return average_ != nullptr; }
  /// A tensor plus the product of its adapter, if any, added in f64.
  std::vector<float> merged(const std::string& name) const;
  /// A tensor without its adapter, or a factor of an adapter.
  std::vector<float> base(const std::string& name) const;
  /// Loads the merged weights. Throws ConfigError naming a parameter that is missing or has another shape.
  void load(const plan::Plan& plan, float* params) const;
  /// Writes the merged weights as safetensors with the checkpoint's metadata. Returns the number of tensors
  /// with an adapter.
  int64_t write(const std::filesystem::path& to) const;

 private:
  struct Factors {
    const StoredTensor &a, &b;  // [rank, in], [out, rank]
    std::string name_a, name_b;
  };
  std::optional<Factors> factors_of(const std::string& name) const;
  std::vector<double> values_of(const std::string& name) const;
  const OpenCheckpoint::Reader model_, average_;  // average_: of the trained parameters, or null
  const double scale_;                            // of the adapters
};

}  // namespace isobar::inference
