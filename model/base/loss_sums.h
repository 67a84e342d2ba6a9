// Parts of the loss of fields: sums over the points of a sample, reduced over the ranks that share it.
//
//   |error|^2 (or the sum of penalties), |target|^2, and by channel sum_h w_h e^2            [2 + C]
//   with a mask also the count of valid points, and by channel the sum_h w_h over them       [3 + 2 C]
//
// w_h: weights of rows (latitude.h). The count weighs rows as the loss does: by w_h under latitude weights.
#pragma once
#include <cstdint>

#include "model/base/system/host_device.h"

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
