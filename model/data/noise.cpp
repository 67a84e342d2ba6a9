#include "model/data/noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/base/rng.h"
#include "model/data/channels.h"
#include "model/data/synth.h"

namespace isobar {

namespace {

constexpr int64_t kRows = 13, kColumns = 24;  // coarse grid; columns wrap around
constexpr int64_t kTimes = 3;                 // that a state is the mean of
constexpr float kInterpolated = 1.5f;         // of the deviation, that interpolation takes away
constexpr int64_t kMostKept = 1 << 24;        // numbers of a table; more are made when they are read

class Noise : public Dataset {
 public:
  Noise(int64_t samples, int64_t dt, Split split, const SampleShape& shape)
      : samples_(samples),
        dt_(dt),
        seed_(split == Split::train ? 0x6e6f697365 : 0x766e6f697365),
        shape_(shape) {
    width_ = std::max(shape.input.channels, shape.target.channels);
    const int64_t rows = samples + dt, times = rows + kTimes - 1;
    if (!shape.of_table || rows > kMostKept / width_) return;
    std::vector<float> deviates(static_cast<size_t>(times));
    rows_.resize(static_cast<size_t>(rows * width_));
    for (int64_t c = 0; c < width_; ++c) {
      for (int64_t t = 0; t < times; ++t) deviates[t] = deviate(t, c, 0);
      for (int64_t t = 0; t < rows; ++t) rows_[t * width_ + c] = coarse(&deviates[t]) / kInterpolated;
    }
  }
  int64_t size() const override { return samples_; }
  SampleShape shape() const override { return shape_; }
  // Every six hours from 2000 on
  double hours(int64_t i, int64_t later) const override {
    return 262968.0 + 6.0 * static_cast<double>(i + (shape_.history - 1 + later) * dt_);
  }
  int64_t one_later(int64_t i) const override { return i + dt_ < samples_ ? i + dt_ : -1; }
  ChannelNames channels() const override {
    ChannelNames names{{}, default_channel_names(shape_.target.channels)};
    const int64_t of_a_time = shape_.of_a_time();
    const std::vector<std::string> one = default_channel_names(of_a_time + shape_.fixed);
    for (int64_t before = shape_.history - 1; before >= 0; --before)
      for (int64_t c = 0; c < of_a_time; ++c) names.inputs.push_back(earlier(one[c], before));
    names.inputs.insert(names.inputs.end(), one.begin() + of_a_time, one.end());
    return names;
  }
  void read(int64_t i, float* input, float* target) const override {
    if (!rows_.empty()) {
      std::copy_n(&rows_[i * width_], shape_.input.channels, input);
      std::copy_n(&rows_[(i + dt_) * width_], shape_.target.channels, target);
    } else {
      FieldShape one = shape_.input;
      one.channels = shape_.of_a_time();
      for (int64_t h = 0; h < shape_.history; ++h) make(i + h * dt_, one, input + h * one.size());
      if (shape_.fixed > 0)  // of a time that no sample has
        make(-kTimes, shape_.of_files(shape_.fixed), input + shape_.history * one.size());
      make(i + (shape_.history - 1 + shape_.first_step) * dt_, shape_.target, target);
    }
    // The input with the largest number, of as many as there are classes: something to learn
    if (const int64_t n = std::min(shape_.classes, shape_.input.channels); n > 0)
      *target = static_cast<float>(std::max_element(input, input + n) - input);
  }
  void read_tensors(int64_t i, std::span<float* const> to) const override {
    auto next = to.begin();
    float* const input = *next++;
    read(i, input, *next++);
    const int64_t newest = i + (shape_.history - 1) * dt_;
    for (int64_t k = 1; k < shape_.steps; ++k)
      make(newest + (shape_.first_step + k) * dt_, shape_.target, *next++);
    if (shape_.known == 0) return;
    FieldShape one = shape_.input;  // the last channels of a state
    one.channels = shape_.of_a_time();
    const int64_t count = shape_.known * one.height * one.width;
    std::vector<float> state(static_cast<size_t>(one.size()));
    for (int64_t k = 1; k <= shape_.later; ++k) {
      make(newest + k * dt_, one, state.data());
      std::copy_n(state.end() - count, count, *next++);
    }
  }

 private:
  float deviate(int64_t t, int64_t c, int64_t point) const {
    return normal(seed_, c, t * kRows * kColumns + point);
  }
  static float coarse(const float* deviates) {  // of kTimes in a row
    float sum = 0;
    for (int64_t k = 0; k < kTimes; ++k) sum += deviates[k];
    return sum * 0.87f;  // 3^-1/2, times 3/2 for the variance that interpolation takes away
  }
  float coarse(int64_t t, int64_t c, int64_t point) const {
    float deviates[kTimes];
    for (int64_t k = 0; k < kTimes; ++k) deviates[k] = deviate(t + k, c, point);
    return coarse(deviates);
  }

  void make(int64_t t, const FieldShape& shape, float* out) const {
    const int64_t w = shape.width;
    if (shape.height * w == 1) {  // numbers of no place: nothing is interpolated
      for (int64_t c = 0; c < shape.channels; ++c) out[c] = coarse(t, c, 0) / kInterpolated;
      return;
    }
    float grid[kRows][kColumns + 1], row[kColumns + 1];
    for (int64_t c = 0; c < shape.channels; ++c) {
      for (int64_t i = 0; i < kRows; ++i) {
        for (int64_t j = 0; j < kColumns; ++j) grid[i][j] = coarse(t, c, i * kColumns + j);
        grid[i][kColumns] = grid[i][0];
      }
      for (int64_t y = 0; y < shape.height; ++y) {
        const float at = static_cast<float>(y) * (kRows - 1) / static_cast<float>(shape.height);
        const auto i = static_cast<int64_t>(at);
        const float f = at - static_cast<float>(i);
        for (int64_t j = 0; j <= kColumns; ++j) row[j] = grid[i][j] + f * (grid[i + 1][j] - grid[i][j]);
        float* to = out + (c * shape.height + y) * w;
        for (int64_t j = 0; j < kColumns; ++j) {
          const int64_t from = (j * w + kColumns - 1) / kColumns,
                        end = ((j + 1) * w + kColumns - 1) / kColumns;
          const float slope = (row[j + 1] - row[j]) * kColumns / static_cast<float>(w);
          const float base = row[j] - slope * static_cast<float>(j * w) / kColumns;
          for (int64_t x = from; x < end; ++x)
            to[x] = base + slope * static_cast<float>(static_cast<int32_t>(x));
        }
      }
    }
  }

  int64_t samples_, dt_;
  uint64_t seed_;
  SampleShape shape_;
  int64_t width_ = 0;        // of a table's rows
  std::vector<float> rows_;  // [samples + dt, width]
};

}  // namespace

std::unique_ptr<Dataset> make_noise(int64_t samples, int64_t dt, Split split, const SampleShape& shape) {
  return std::make_unique<Noise>(samples, dt, split, shape);
}

}  // namespace isobar
