// Philox4x32-10 (Salmon et al., SC'11) on host and device, for kernels; host code uses rng.h.
//
//   philox_words(seed, stream, index).x[0]      // 32 random bits, four of them an index
//   DropoutDraw draw{seed, stream, 0.2f, step};
//   x[i] *= draw.factor(words of element i / 4, i % 4);
#pragma once
#include <cstdint>

#include "model/base/system/host_device.h"

namespace isobar {

struct PhiloxWords {
  uint32_t x[4];
};

ISOBAR_HOST_DEVICE constexpr PhiloxWords philox_words(uint64_t seed, uint64_t stream, uint64_t index) {
  PhiloxWords c{{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                 static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c.x[0], p1 = uint64_t{0xCD9E8D57} * c.x[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.x[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.x[3] ^ k1, static_cast<uint32_t>(p0)}};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

/// Dropout factors of one place of a net in one step: 0 with probability `rate`, else 1 / (1 - rate).
/// Elements are numbered row * columns + column, with rows counted over all samples of the step, so that
/// every layout draws the same.
struct DropoutDraw {
  uint64_t seed, stream;
  float rate;
  int64_t step;
  ISOBAR_HOST_DEVICE PhiloxWords words(int64_t group) const {  // of elements 4 group … 4 group + 3
    constexpr uint64_t kDropout = 0x64726f70;  // a stream that initialisation and shuffling do not draw from
    return philox_words(seed, kDropout << 32 ^ stream << 40 ^ static_cast<uint64_t>(step),
                        static_cast<uint64_t>(group));
  }
  ISOBAR_HOST_DEVICE float factor(const PhiloxWords& w, int k) const {
    // 24 bits: exact in f32
    return static_cast<float>(w.x[k] >> 8) * 0x1p-24f < rate ? 0.0f : 1.0f / (1.0f - rate);
  }
};

}  // namespace isobar
