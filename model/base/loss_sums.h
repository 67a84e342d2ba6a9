// What the loss of fields is made of: sums over the points of a sample, which ranks that share it add up.
//
//   |error|^2 (or the sum of penalties), |target|^2, and by channel sum_h w_h e^2            [2 + C]
//   with a mask also how many points there are, and by channel sum_h w_h of those            [3 + 2 C]
//
// w_h: weights of rows (latitude.h). "How many" counts rows as the loss does: by w_h where it is weighted so.
#pragma once
#include <cstdint>

#include "model/base/host_device.h"

namespace isobar {

ISOBAR_HOST_DEVICE constexpr int64_t loss_sums_size(int64_t channels, bool masked) {
  return masked ? 3 + 2 * channels : 2 + channels;
}
constexpr int64_t kErrorSum = 0, kTargetSum = 1, kChannelErrors = 2;
ISOBAR_HOST_DEVICE constexpr int64_t points_at(int64_t channels) {
  return kChannelErrors + channels;
}
ISOBAR_HOST_DEVICE constexpr int64_t channel_points_at(int64_t channels) {
  return points_at(channels) + 1;
}

}  // namespace isobar
