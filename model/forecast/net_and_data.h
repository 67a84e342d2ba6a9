// A trained net and the data to apply it to, as `forecast` and `jacobian` need them.
//
//   const NetAndData opened = open_net_and_data("runs/first", "", 0);
//   Forecaster net(opened.checkpoint, opened.state, batch, threads);
//   opened.read(i, input, target);                                    // normalised
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "model/data/dataset.h"
#include "model/inference/weights/checkpoint_state.h"

namespace isobar::forecast {

struct NetAndData {
  std::filesystem::path checkpoint;
  inference::CheckpointState state;  // with its channels, and the spec of the data
  std::unique_ptr<data::Dataset> set;

  /// Sample i, normalised as in training. `mask`: target points that count, for nets trained with a mask
  void read(int64_t i, float* input, float* target, float* mask = nullptr) const;
  /// Normalises [channels, points] of a sample as in training; missing values become the mean.
  void normalised(const std::vector<inference::NetChannel>& channels, int64_t points, const float* x,
                  float* out) const;
};

/// `from`: a run or a checkpoint. `data`: as data.valid, "": the run's own validation data. `samples`: the
/// first ones, 0: all. `steps`: targets of a sample, 0: as in training. Throws ConfigError.
NetAndData open_net_and_data(const std::string& from, const std::string& data, int64_t samples,
                             int64_t steps = 1);

}  // namespace isobar::forecast
