// A trained net rolled forward in time: each prediction is the newest time of the next input, as in a
// roll-out of training (model/backend/cpu/kernels.h, roll).
//
//   RollForward roll(net, history, known, fixed);
//   roll.start(input);                                    // normalised, [batch, in, H, W]
//   for (…) { roll.step(prediction); roll.follow(prediction, forcing); }
#pragma once
#include <cstdint>
#include <vector>

#include "model/inference/forecaster.h"

namespace isobar {

class RollForward {
 public:
  /// `history`: times among the input's channels, oldest first; `known`: the last channels of a time, which
  /// nobody predicts; `fixed`: those that stand once, behind all times. The net outlives this.
  RollForward(Forecaster& net, int64_t history, int64_t known, int64_t fixed = 0);
  void start(const float* input);
  /// The next time, normalised, [batch, out, H, W]
  void step(float* prediction);
  /// … and its errors against what came, where `mask` says that it counts (Forecaster)
  void step(const float* target, float* prediction, const float* mask) {
    net_(input_.data(), target, prediction, mask);
  }
  /// Moves on by one time: `prediction` as step() gave it, `forcing` [batch, known, H, W], normalised (null
  /// where nothing is known).
  void follow(const float* prediction, const float* forcing);

 private:
  Forecaster& net_;
  int64_t history_, known_, fixed_;
  std::vector<float> input_;
};

}  // namespace isobar
