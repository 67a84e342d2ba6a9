#include "model/inference/weights/net_channels.h"

#include <algorithm>

#include "model/backend/cpu/isa/kernels.h"

namespace isobar::inference {
namespace {

// Applies f(x, mean, std) to every element, samples outermost. The pragmas are needed because the compiler
// cannot see that elements are independent when `out` is `x`.
template <class F>
void each(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, const float* x,
          float* out, const F& f) {
  for (int64_t s = 0; s < samples; ++s)
    for (const NetChannel& c : channels) {
      const float mean = c.mean, std = c.std;
#pragma omp simd
      for (int64_t i = 0; i < points; ++i) out[i] = f(x[i], mean, std);
      x += points, out += points;
    }
}

// Means and deviations repeated for several samples, so that vectors are full for any number of channels.
struct Runs {
  explicit Runs(const std::vector<NetChannel>& channels, int64_t samples) {
    const auto together = static_cast<size_t>(std::min<int64_t>(samples, 16)), n = channels.size();
    means.resize(together * n), stds.resize(together * n);
    for (size_t i = 0; i < n; ++i)
      for (size_t at = i; at < means.size(); at += n)
        means[at] = channels[i].mean, stds[at] = channels[i].std;
  }
  /// Calls f(first element, elements, means, stds) for each run of `all` elements
  template <class F>
  void each(int64_t all, const F& f) const {
    const auto most = static_cast<int64_t>(means.size());
    for (int64_t first = 0; first < all; first += most)
      f(first, std::min(most, all - first), means.data(), stds.data());
  }
  std::vector<float> means, stds;
};

}  // namespace

std::vector<NetChannel> outputs_of(const NetChannels& channels, int64_t classes) {
  if (classes == 0) return channels.targets;
  const NetChannel& target = channels.targets.at(0);
  std::vector<NetChannel> logits;
  for (int64_t i = 0; i < classes; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool named = k < target.classes.size() && !target.classes[k].empty();
    logits.push_back({.name = named ? target.classes[k] : target.name + "_" + std::to_string(i)});
  }
  return logits;
}

void normalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, const float* x,
               float* out) {
  if (points > 1)
    return each(channels, points, samples, x, out,
                [](float v, float mean, float std) { return (v - mean) / std; });
  Runs(channels, samples)
      .each(samples * static_cast<int64_t>(channels.size()),
            [&](int64_t first, int64_t n, const float* mean, const float* std) {
              cpu::normalise(n, x + first, mean, std, out + first);
            });
}

void denormalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, float* x) {
  if (points > 1)
    return each(channels, points, samples, x, x,
                [](float v, float mean, float std) { return v * std + mean; });
  Runs(channels, samples)
      .each(samples * static_cast<int64_t>(channels.size()),
            [&](int64_t first, int64_t n, const float* mean, const float* std) {
#pragma omp simd
              for (int64_t i = 0; i < n; ++i) x[first + i] = x[first + i] * std[i] + mean[i];
            });
}

}  // namespace isobar::inference
