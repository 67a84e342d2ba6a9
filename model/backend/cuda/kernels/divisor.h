// Divisions of indices by sizes that are known when a kernel is launched: a multiplication and a shift in
// place of some twenty instructions, a hundred in 64 bits (Granlund and Montgomery 1994, "Division by
// invariant integers").
//
//   const Divisor by(s.p);                  // on the host, then an argument of the kernel
//   const int row = by(i), column = i - row * by.size();
#pragma once
#include <algorithm>
#include <cstdint>

#include "model/base/system/host_device.h"

namespace isobar::cuda {

class Divisor {
 public:
  /// 1 <= size < 2^31
  explicit Divisor(int64_t size) : size_(static_cast<int>(size)) {
    while ((int64_t{1} << shift_) < size) ++shift_;
    multiplier_ = static_cast<uint32_t>((((int64_t{1} << shift_) - size) << 32) / size + 1);
  }
  ISOBAR_HOST_DEVICE int size() const { return size_; }
  /// n / size, of 0 <= n < 2^31
  ISOBAR_HOST_DEVICE int operator()(int n) const {
    const auto m = static_cast<uint32_t>(n);
    return static_cast<int>((static_cast<uint32_t>(uint64_t{multiplier_} * m >> 32) + m) >> shift_);
  }

 private:
  int size_;
  uint32_t multiplier_ = 0, shift_ = 0;
};

}  // namespace isobar::cuda
