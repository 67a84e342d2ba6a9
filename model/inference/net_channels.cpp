#include "model/inference/net_channels.h"

#include <algorithm>

namespace isobar {
namespace {

// f(x, mean, std) for every element, samples outermost. Every result depends on its own element alone, which
// the compiler cannot see where `out` is `x`: hence the pragmas.
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

// The same for numbers: some samples are one run, so that vectors are full whatever the number of channels.
template <class F>
void each_number(const std::vector<NetChannel>& channels, int64_t samples, const float* x, float* out,
                 const F& f) {
  const int64_t together = std::min<int64_t>(samples, 16);
  std::vector<float> means, stds;
  for (int64_t s = 0; s < together; ++s)
    for (const NetChannel& c : channels) means.push_back(c.mean), stds.push_back(c.std);
  const auto all = samples * static_cast<int64_t>(channels.size()), most = static_cast<int64_t>(means.size());
  const float *mean = means.data(), *std = stds.data();
  for (int64_t first = 0; first < all; first += most, x += most, out += most) {
    const int64_t run = std::min(most, all - first);
#pragma omp simd
    for (int64_t i = 0; i < run; ++i) out[i] = f(x[i], mean[i], std[i]);
  }
}

template <class F>
void by_channel(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, const float* x,
                float* out, const F& f) {
  if (points == 1)
    each_number(channels, samples, x, out, f);
  else
    each(channels, points, samples, x, out, f);
}

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
  by_channel(channels, points, samples, x, out,
             [](float v, float mean, float std) { return (v - mean) / std; });
}

void denormalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, float* x) {
  by_channel(channels, points, samples, x, x, [](float v, float mean, float std) { return v * std + mean; });
}

}  // namespace isobar
