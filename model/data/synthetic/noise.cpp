#include "model/data/synthetic/noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/base/rng.h"
#include "model/data/fields/channels.h"
#include "model/data/synthetic/synth.h"

namespace isobar::data {

namespace {

constexpr int64_t kRows = 13, kColumns = 24;  // coarse grid; columns wrap around
constexpr int64_t kTimes = 3;                 // averaged to a state
constexpr float kInterpolated = 1.5f;         // corrects the deviation lost by interpolation
constexpr int64_t kMostKept = 1 << 24;        // coarse values; a larger set is made as it is read

class Noise : public Dataset {
 public:
  Noise(int64_t samples, int64_t dt, Split split, const SampleShape& shape)
      : samples_(samples),
        dt_(dt),
        seed_(split == Split::train ? 0x6e6f697365 : 0x766e6f697365),
        shape_(shape) {
    const int64_t times = samples + std::max(shape.span(), shape.history - 1 + shape.later) * dt;
    width_ = std::max(shape.of_a_time(), shape.target.channels);
    points_ = shape.input.height * shape.input.width == 1 ? 1 : kRows * kColumns;
    if (times > kMostKept / (width_ * points_)) return;
    std::vector<float> deviates(static_cast<size_t>(times + kTimes - 1));
    kept_.resize(static_cast<size_t>(times * width_ * points_));
    for (int64_t c = 0; c < width_; ++c)
      for (int64_t p = 0; p < points_; ++p) {
        for (size_t t = 0; t < deviates.size(); ++t) deviates[t] = deviate(static_cast<int64_t>(t), c, p);
        for (int64_t t = 0; t < times; ++t) kept_[place(t, c, p)] = mean_of(&deviates[t]);
      }
  }
  int64_t size() const override { return samples_; }
  SampleShape shape() const override { return shape_; }
  // Six-hourly times from 2000
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
    FieldShape one = shape_.input;
    one.channels = shape_.of_a_time();
    for (int64_t h = 0; h < shape_.history; ++h) make(i + h * dt_, one, input + h * one.size());
    if (shape_.fixed > 0)  // from a time outside all samples
      make(-kTimes, shape_.of_files(shape_.fixed), input + shape_.history * one.size());
    make(i + shape_.span() * dt_, shape_.target, target);
    // The class is the index of the largest of the first `classes` inputs, which a net can learn
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
    FieldShape one = shape_.input;  // a state; its last channels are the `known` ones
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
  static float mean_of(const float* deviates) {  // kTimes adjacent ones
    float sum = 0;
    for (int64_t k = 0; k < kTimes; ++k) sum += deviates[k];
    return sum * 0.87f;  // 3^-1/2 for unit variance, times kInterpolated
  }
  int64_t place(int64_t t, int64_t c, int64_t point) const { return (t * width_ + c) * points_ + point; }
  float coarse(int64_t t, int64_t c, int64_t point) const {
    if (const int64_t at = place(t, c, point); t >= 0 && at < std::ssize(kept_)) return kept_[at];
    float deviates[kTimes];
    for (int64_t k = 0; k < kTimes; ++k) deviates[k] = deviate(t + k, c, point);
    return mean_of(deviates);
  }

  void make(int64_t t, const FieldShape& shape, float* out) const {
    const int64_t w = shape.width;
    if (points_ == 1) {  // rows of a table: no interpolation
      for (int64_t c = 0; c < shape.channels; ++c) out[c] = coarse(t, c, 0) / kInterpolated;
      return;
    }
    std::vector<float> wide(static_cast<size_t>(kRows * w));  // coarse rows, interpolated to width w
    for (int64_t c = 0; c < shape.channels; ++c) {
      for (int64_t i = 0; i < kRows; ++i) {
        float row[kColumns + 1];
        for (int64_t j = 0; j < kColumns; ++j) row[j] = coarse(t, c, i * kColumns + j);
        row[kColumns] = row[0];
        stretch(row, w, &wide[i * w]);
      }
      for (int64_t y = 0; y < shape.height; ++y) {
        const float at = static_cast<float>(y) * (kRows - 1) / static_cast<float>(shape.height);
        const auto i = static_cast<int64_t>(at);
        const float f = at - static_cast<float>(i);
        const float *north = &wide[i * w], *south = north + w;
        float* to = out + (c * shape.height + y) * w;
        for (int64_t x = 0; x < w; ++x) to[x] = north[x] + f * (south[x] - north[x]);
      }
    }
  }
  static void stretch(const float* row, int64_t w, float* to) {
    int64_t x = 0;
    for (int64_t j = 0; j < kColumns; ++j)
      for (; x * kColumns < (j + 1) * w; ++x) {
        const float f = static_cast<float>(x * kColumns - j * w) / static_cast<float>(w);
        to[x] = row[j] + f * (row[j + 1] - row[j]);
      }
  }

  int64_t samples_, dt_;
  uint64_t seed_;
  SampleShape shape_;
  int64_t width_ = 0, points_ = 0;  // channels of one time; points of the coarse grid
  std::vector<float> kept_;         // [times, width, points]: coarse values, unless more than kMostKept
};

}  // namespace

std::unique_ptr<Dataset> make_noise(int64_t samples, int64_t dt, Split split, const SampleShape& shape) {
  return std::make_unique<Noise>(samples, dt, split, shape);
}

}  // namespace isobar::data
