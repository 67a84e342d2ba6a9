// Losses of fields and numbers; formulas: model/backend/cpu/kernels.h.
#pragma once
#include <cstdint>

namespace isobar {

/// projection: the mean of pred * target, of which the gradient is the target (inference/jacobian.h); nothing
/// trains on it.
enum class LossKind : uint8_t { relative_l2, mae, mse, huber, projection };
inline const char* name_of(LossKind k) {
  constexpr const char* kNames[] = {"relative-l2", "mae", "mse", "huber", "projection"};
  return kNames[static_cast<int>(k)];
}

}  // namespace isobar
