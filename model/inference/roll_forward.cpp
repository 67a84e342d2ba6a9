#include "model/inference/roll_forward.h"

#include <algorithm>

namespace isobar::inference {

RollForward::RollForward(Forecaster& net, int64_t history, int64_t known, int64_t fixed)
    : net_(net), history_(history), known_(known), fixed_(fixed) {}

void RollForward::start(const float* input) {
  input_.assign(input, input + net_.batch() * net_.input().size());
}

void RollForward::step(float* prediction) {
  net_([&](float* to, int64_t count) { std::copy_n(input_.data(), count, to); }, prediction);
}

void RollForward::follow(const float* prediction, const float* forcing) {
  const Forecaster::Shape in = net_.input();
  const int64_t points = in.height * in.width, time = (in.channels - fixed_) / history_ * points,
                known = known_ * points, predicted = time - known, times = history_ * time;
  for (int64_t b = 0; b < net_.batch(); ++b) {
    float* sample = input_.data() + b * in.size();
    std::copy(sample + time, sample + times, sample);  // drops the oldest time
    float* newest = sample + times - time;
    std::copy_n(prediction + b * predicted, predicted, newest);
    if (known > 0) std::copy_n(forcing + b * known, known, newest + predicted);
  }
}

}  // namespace isobar::inference
