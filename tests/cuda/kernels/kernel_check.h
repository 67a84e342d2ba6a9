// GPU kernels against the CPU's, op by op. The same tests run on a GPU if there is one, and always in the
// emulator (emulator.h). Operands are random, outputs begin as NaN, and their surroundings must not change.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/runtime/device.h"
#include "tests/cpu/kernel_testing.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace isobar::cuda::testing {

using cpu::testing::Buffer;
using cpu::testing::Random;
using cpu::testing::roundoff;

constexpr DType kActs[] = {DType::f32, DType::bf16, DType::f16};

#ifdef ISOBAR_EMULATED
#define ISOBAR_NEEDS_KERNELS() (void)0
#else
#define ISOBAR_NEEDS_KERNELS()                                 \
  if (const Devices found = find_devices(); found.all.empty()) \
  GTEST_SKIP() << "needs a GPU: " << found.why_none
#endif

/// A device copy of a host buffer, between guards.
class OnDevice {
 public:
  explicit OnDevice(const Buffer& b, int64_t shift = 0) : OnDevice(b.data(), b.bytes(), shift) {}
  OnDevice(const void* from, int64_t bytes, int64_t shift = 0) : bytes_(bytes), shift_(shift) {
    const auto all = static_cast<size_t>(bytes + shift + 2 * kGuard);
    std::vector<std::byte> image(all, kPattern);
    std::copy_n(static_cast<const std::byte*>(from), bytes, image.data() + kGuard + shift);
    void* p = nullptr;
    ISOBAR_CUDA(cudaMalloc(&p, all));
    base_ = static_cast<std::byte*>(p);
    ISOBAR_CUDA(cudaMemcpy(base_, image.data(), all, cudaMemcpyHostToDevice));
    ISOBAR_CUDA(cudaDeviceSynchronize());  // for streams that do not wait for the null stream
    close_guards();
  }
  ~OnDevice() {
    open_guards();
    cudaFree(base_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void* data() const { return base_ + kGuard + shift_; }
  float* f32() const { return static_cast<float*>(data()); }
  double* f64() const { return static_cast<double*>(data()); }
  /// The present content. Fails if a guard has changed.
  Buffer read(DType t) const {
    const auto all = static_cast<size_t>(bytes_ + shift_ + 2 * kGuard);
    std::vector<std::byte> image(all);
    ISOBAR_CUDA(cudaDeviceSynchronize());
    open_guards();
    ISOBAR_CUDA(cudaMemcpy(image.data(), base_, all, cudaMemcpyDeviceToHost));
    close_guards();
    const auto begin = static_cast<size_t>(kGuard + shift_), end = begin + static_cast<size_t>(bytes_);
    for (size_t i = 0; i < all; ++i)
      if ((i < begin || i >= end) && image[i] != kPattern) {
        ADD_FAILURE() << "byte " << static_cast<int64_t>(i - begin) << " beside the buffer was written";
        break;
      }
    Buffer b(t, bytes_ / size_of(t));
    std::copy_n(image.data() + begin, bytes_, static_cast<std::byte*>(b.data()));
    return b;
  }

 private:
  static constexpr int64_t kGuard = 256;
  static constexpr std::byte kPattern{0xa5};
  // In the emulator kernels may not even read a guard: address sanitizer reports it.
#if defined(__SANITIZE_ADDRESS__) && defined(ISOBAR_EMULATED)
  void close_guards() const {
    __asan_poison_memory_region(base_, kGuard + shift_);
    __asan_poison_memory_region(base_ + kGuard + shift_ + bytes_, kGuard);
  }
  void open_guards() const {
    __asan_unpoison_memory_region(base_, bytes_ + shift_ + 2 * kGuard);
  }
#else
  void close_guards() const {}
  void open_guards() const {}
#endif
  int64_t bytes_, shift_;
  std::byte* base_ = nullptr;
};

/// |got - want| / |want| in the Euclidean norm; NaN if either has one.
inline double distance(const Buffer& got, const Buffer& want) {
  double error = 0, size = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return size > 0 ? std::sqrt(error / size) : std::sqrt(error);
}
/// Tolerance between two correct results: one rounding, and f32 sums in another order.
inline double tolerance(DType t) {
  return t == DType::f32 ? 2e-6 : 1.5 * roundoff(t);
}
inline void expect_near(const Buffer& got, const Buffer& want, double tolerance, const std::string& what) {
  const double d = distance(got, want);
  EXPECT_TRUE(d <= tolerance) << what << ": |got - want| / |want| = " << d << ", allowed " << tolerance;
}
/// Sums over `rows` of term(row, column). Cancelling terms leave their rounding errors, so errors are
/// relative to what was added: |got - want| / |sums of |term||.
template <class Term>
void expect_sums_near(const Buffer& got, const Buffer& want, int64_t rows, Term term, const std::string& what,
                      double allowed = 5e-7) {
  double error = 0, size = 0;
  for (int64_t j = 0; j < want.size(); ++j) {
    double added = 0;
    for (int64_t r = 0; r < rows; ++r) added += std::abs(term(r, j));
    error += (got[j] - want[j]) * (got[j] - want[j]);
    size += added * added;
  }
  const double d = std::sqrt(error / size);
  EXPECT_TRUE(d <= allowed) << what << ": |got - want| / |sums of |term|| = " << d << ", allowed " << allowed;
}

}  // namespace isobar::cuda::testing
