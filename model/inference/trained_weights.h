// The weights that a checkpoint stands for: its model's, or their moving average where the run was validated
// by that, with low-rank adapters (nets/adapter.h) added to them: W + s B A. The result is a net like any
// other.
//
//   const TrainedWeights weights(OpenCheckpoint(checkpoint, CheckpointPart::weights, {}));
//   weights.load(plan, params);                      // of a plan on one rank, without adapters
//   weights.write("merged.safetensors");
#pragma once
#include <memory>
#include <optional>

#include "model/inference/open_checkpoint.h"
#include "model/plan/plan.h"

namespace isobar {

class TrainedWeights {
 public:
  /// Takes those of a checkpoint whose weights are open (CheckpointPart::weights)
  explicit TrainedWeights(const OpenCheckpoint& checkpoint);
  /// Of a file that holds all of them
  TrainedWeights(const std::filesystem::path& file, double scale);

  std::string path() const { return model_->path().string(); }
  int64_t adapters() const;  // tensors that have one
  bool averaged() const { return average_ != nullptr; }
  /// A tensor with its adapter's product, if it has one, added in f64.
  std::vector<float> merged(const std::string& name) const;
  /// Without it; or what an adapter has.
  std::vector<float> base(const std::string& name) const;
  /// Throws ConfigError naming the parameter that is missing or has another shape.
  void load(const Plan& plan, float* params) const;
  /// As a safetensors file with the metadata of the checkpoint's. Returns how many had an adapter.
  int64_t write(const std::filesystem::path& to) const;

 private:
  struct Factors {
    const StoredTensor &a, &b;  // [rank, in], [out, rank]
    std::string name_a, name_b;
  };
  std::optional<Factors> factors_of(const std::string& name) const;
  std::vector<double> values_of(const std::string& name) const;
  const OpenCheckpoint::Reader model_, average_;  // average_: of what was trained, or null
  const double scale_;                            // of adapters
};

}  // namespace isobar
