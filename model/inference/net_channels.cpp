#include "model/inference/net_channels.h"

namespace isobar {
namespace {

// f(x, channel) for every element, samples outermost
template <class F>
void each(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, const float* x,
          float* out, const F& f) {
  for (int64_t s = 0; s < samples; ++s)
    for (const NetChannel& c : channels)
      for (int64_t i = 0; i < points; ++i) *out++ = f(*x++, c);
}

}  // namespace

void normalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, const float* x,
               float* out) {
  each(channels, points, samples, x, out, [](float v, const NetChannel& c) { return (v - c.mean) / c.std; });
}

void denormalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, float* x) {
  each(channels, points, samples, x, x, [](float v, const NetChannel& c) { return v * c.std + c.mean; });
}

}  // namespace isobar
