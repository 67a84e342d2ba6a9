// Shared by tests of base/system/denormals.h: a thread that keeps denormals, and a check for threads that
// flush them.
#pragma once
#include <bit>
#include <cstdint>

#include "model/base/system/denormals.h"

namespace isobar::test {

inline bool flushes_denormals() {
  volatile float least = 0x1p-126f, denormal = std::bit_cast<float>(uint32_t{1} << 22);
  return least * 0.5f == 0 && denormal * 0x1p20f == 0;
}

/// The calling thread as it would be without flush_denormals().
inline void keep_denormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() & ~0x8040u);
#elif defined(__aarch64__)
  uint64_t now = 0;
  asm volatile("mrs %0, fpcr" : "=r"(now));
  asm volatile("msr fpcr, %0" : : "r"(now & ~(uint64_t{1} << 24)));
#endif
}

}  // namespace isobar::test
