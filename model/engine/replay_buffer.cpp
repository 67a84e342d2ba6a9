#include "model/engine/replay_buffer.h"

#include <algorithm>
#include <stdexcept>

namespace isobar::engine {
namespace {

const plan::ImageAttrs& image_read_by(const plan::Plan& plan) {
  const auto fetch = std::find_if(plan.ops.begin(), plan.ops.end(),
                                  [](const plan::Op& op) { return op.kind == plan::OpKind::fetch; });
  if (fetch == plan.ops.end()) throw std::logic_error("a replay buffer where no samples are read");
  return fetch->as<plan::ImageAttrs>();
}

}  // namespace

ReplayBuffer::ReplayBuffer(const RunSpec& spec, const plan::Plan& plan, data::ReplaySchedule schedule)
    : schedule_(std::move(schedule)),
      image_(image_read_by(plan)),
      history_(spec.history()),
      predicted_(spec.net.images()->out_channels),
      fixed_(spec.net.fixed_channels()),
      row_(predicted_ * image_.patch * image_.patch),
      held_(static_cast<size_t>(spec.micro_batch()),
            std::vector<int64_t>(static_cast<size_t>(spec.train.replay_capacity), 0)),
      states_(plan.memory.replay) {}

ReplayBuffer::Rows ReplayBuffer::rows_of(int64_t sample) const {
  const auto here = [&](int64_t place) { return std::clamp<int64_t>(place - image_.row0, 0, image_.rows); };
  return {here(sample * image_.tokens), here((sample + 1) * image_.tokens)};
}

float* ReplayBuffer::state(int64_t entry, int64_t age) const {
  return reinterpret_cast<float*>(states_.data()) + (entry * history_ + age) * image_.rows * row_;
}

// A row of a state is stored as [p, p, C'].
void ReplayBuffer::write(int64_t row, const float* state, int64_t time, float* input) const {
  const int64_t p = image_.patch, H = image_.height, W = image_.width, across = W / p;
  const int64_t place = image_.row0 + row, token = image_.token0 + place % image_.tokens;
  const int64_t of_a_time = (image_.channels - fixed_) / history_;
  float* const sample = input + place / image_.tokens * image_.channels * H * W;
  for (int64_t c = 0; c < predicted_; ++c)
    for (int64_t i = 0; i < p * p; ++i) {
      const int64_t y = token / across * p + i / p, x = token % across * p + i % p;
      sample[((time * of_a_time + c) * H + y) * W + x] = state[row * row_ + i * predicted_ + c];
    }
}

void ReplayBuffer::fill(int64_t step, float* input) {
  for (int64_t b = 0; b < static_cast<int64_t>(held_.size()); ++b) {
    const data::ReplayDraw& d = schedule_.at(step, b);
    const int64_t times = d.lead > 0 ? held_[b][d.from] : 0;
    const Rows rows = rows_of(b);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t age = 0; age < times; ++age)
      for (int64_t row = rows.first; row < rows.end; ++row)
        write(row, state(d.from, age), history_ - 1 - age, input);
  }
}

void ReplayBuffer::take(int64_t step, const float* predicted) {
  for (int64_t b = 0; b < static_cast<int64_t>(held_.size()); ++b) {
    const data::ReplayDraw& d = schedule_.at(step, b);
    if (d.to < 0) continue;
    const int64_t times = std::min((d.lead > 0 ? held_[b][d.from] : 0) + 1, history_);
    const Rows rows = rows_of(b);
    const int64_t first = rows.first * row_, count = (rows.end - rows.first) * row_;
    for (int64_t age = times - 1; age > 0; --age)  // oldest first: source and destination may be one entry
      std::copy_n(state(d.from, age - 1) + first, count, state(d.to, age) + first);
    std::copy_n(predicted + first, count, state(d.to, 0) + first);
    held_[b][d.to] = times;
  }
}

}  // namespace isobar::engine
