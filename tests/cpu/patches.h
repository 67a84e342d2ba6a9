// Images as patches, pixel by pixel, and the reference loss of whole images.
//
//   const Patch s = random_patch(random, DType::bf16);
//   for_pixels(s, [&](b, c, y, x) {
//     pred[patch_index(s, b, c, y, x, true)] = image[image_index(s, b, c, y, x)];
//   });
#pragma once
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {

// all tokens of all samples
inline Patch whole(Patch s) {
  s.token0 = s.row0 = 0;
  s.tokens = (s.height / s.p) * (s.width / s.p);
  s.rows = s.batch * s.tokens;
  return s;
}

inline Patch random_patch(Random& random, DType act) {
  const int64_t p = random.one_of<int64_t>({1, 2, 4, 8, 3});
  if (random.integer(0, 4) == 0)  // one pixel, as for nets that predict numbers
    return whole({.batch = random.integer(1, 300),
                  .channels = random.integer(1, 20),
                  .height = 1,
                  .width = 1,
                  .p = 1,
                  .act = act});
  return whole({.batch = random.integer(1, 3),
                .channels = random.integer(1, 7),
                .height = p * random.integer(2, 9),
                .width = p * random.integer(1, 9),
                .p = p,
                .act = act});
}

inline int64_t pixels(const Patch& s) {
  return s.batch * s.channels * s.height * s.width;
}

// Index of pixel (b, c, y, x) in the patches; columns (c, row, col) or (row, col, c)
inline int64_t patch_index(const Patch& s, int64_t b, int64_t c, int64_t y, int64_t x, bool channel_last) {
  const int64_t row = (b * (s.height / s.p) + y / s.p) * (s.width / s.p) + x / s.p;
  const int64_t column =
      channel_last ? ((y % s.p) * s.p + x % s.p) * s.channels + c : (c * s.p + y % s.p) * s.p + x % s.p;
  return row * s.p * s.p * s.channels + column;
}

inline int64_t image_index(const Patch& s, int64_t b, int64_t c, int64_t y, int64_t x) {
  return ((b * s.channels + c) * s.height + y) * s.width + x;
}

template <class F>
void for_pixels(const Patch& s, const F& f) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t y = 0; y < s.height; ++y)
        for (int64_t x = 0; x < s.width; ++x) f(b, c, y, x);
}

struct Expected {
  std::vector<double> error, size;  // per sample
  std::vector<double> weighted;     // per sample and channel
  std::vector<double> rmse;         // per channel
  double loss = 0;
};

// `latitudes`: of the rows; {}: from pole to pole
inline Expected reference(const Patch& s, const Buffer& pred, const Buffer& target,
                          const std::vector<double>& latitudes = {}) {
  Expected e{.error = std::vector<double>(s.batch),
             .size = std::vector<double>(s.batch),
             .rmse = std::vector<double>(s.channels)};
  double cosines = 0;
  const auto cosine = [&](int64_t y) {
    if (!latitudes.empty()) return std::cos(latitudes[static_cast<size_t>(y)] * M_PI / 180.0);
    if (s.height == 1) return 1.0;
    return std::cos((90.0 - 180.0 * static_cast<double>(y) / static_cast<double>(s.height - 1)) * M_PI /
                    180.0);
  };
  for (int64_t y = 0; y < s.height; ++y) cosines += cosine(y);
  e.weighted.resize(s.batch * s.channels);
  for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
    const double truth = target[image_index(s, b, c, y, x)];
    const double off = pred[patch_index(s, b, c, y, x, true)] - truth;
    e.error[b] += off * off;
    e.size[b] += truth * truth;
    e.weighted[b * s.channels + c] += static_cast<double>(s.height) * cosine(y) / cosines * off * off;
  });
  for (int64_t b = 0; b < s.batch; ++b) {
    e.loss += std::sqrt(e.error[b] / e.size[b]) / static_cast<double>(s.batch);
    for (int64_t c = 0; c < s.channels; ++c)
      e.rmse[c] += std::sqrt(e.weighted[b * s.channels + c] / static_cast<double>(s.height * s.width)) /
                   static_cast<double>(s.batch);
  }
  return e;
}

}  // namespace isobar::cpu::testing
