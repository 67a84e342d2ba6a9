// Denormals are zeros on every thread that computes, as operands and as results. An operation that meets one
// takes many times as long on Intel CPUs, and no result needs them: numbers below 2^-126 vanish in the
// rounding of an f32.
//
// Kernels set it where their threads begin (backend/cpu/parallel.h); the executor and the loader set it on
// their own threads, from which MPI's threads inherit it. It is never reset, so threads that a library starts
// later inherit it too.
//
//   flush_denormals();   // some cycles where it is set already
#pragma once
#if defined(__x86_64__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace isobar {

/// Flushes denormals on the calling thread, and on threads that it starts later.
inline void flush_denormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40,
                     kBoth = kFlushToZero | kDenormalsAreZero;
  const unsigned now = _mm_getcsr();
  if ((now & kBoth) != kBoth) _mm_setcsr(now | kBoth);
#elif defined(__aarch64__)
  constexpr uint64_t kFlushToZero = 1u << 24;
  uint64_t now = 0;
  asm volatile("mrs %0, fpcr" : "=r"(now));
  if ((now & kFlushToZero) == 0) asm volatile("msr fpcr, %0" : : "r"(now | kFlushToZero));
#endif
}

}  // namespace isobar
