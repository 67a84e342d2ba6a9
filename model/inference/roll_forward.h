// Rolls a trained net forward in time: each prediction becomes the newest time of the next input, as in a
// training roll-out (model/backend/cpu/isa/kernels.h, roll).
//
//   RollForward roll(net, history, known, fixed);
//   roll.start(input);                                    // normalised, [batch, in, H, W]
//   for (…) { roll.step(prediction); roll.follow(prediction, forcing); }
#pragma once
#include <cstdint>
#include <vector>

#include "model/inference/forecaster.h"

namespace isobar::inference {

class RollForward {
 public:
  /// `history`: times among the input's channels, oldest first; `known`: the last channels of a time, which
  /// are not predicted; `fixed`: channels that appear once, after all times. The net must outlive this.
  RollForward(Forecaster& net, int64_t history, int64_t known, int64_t fixed = 0);
  void start(const float* input);
  /// Predicts the next time, normalised, [batch, out, H, W]
  void step(float* prediction);
  /// Also computes the net's errors against `target` where `mask` is 1 (Forecaster)
  void step(const float* target, float* prediction, const float* mask) {
    net_(input_.data(), target, prediction, mask);
  }
  /// Advances the input by one time: `prediction` from step(), `forcing` [batch, known, H, W], normalised
  /// (null when known = 0).
  void follow(const float* prediction, const float* forcing);

 private:
  Forecaster& net_;
  int64_t history_, known_, fixed_;
  std::vector<float> input_;
};

}  // namespace isobar::inference
