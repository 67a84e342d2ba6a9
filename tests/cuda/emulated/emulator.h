// Runs GPU kernels on the host, so that indices, barriers and sums are tested without a GPU. The .cu files
// are compiled as C++ with this header: a block's threads are fibers that switch at __syncthreads, __syncwarp
// and shuffles. A barrier that some of a block's (a warp's) threads do not reach is an error. Says nothing
// about speed or hardware races (use compute-sanitizer).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#define ISOBAR_EMULATED
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace isobar::emulator {
struct Index {
  unsigned x, y, z;
};
extern Index thread, block;
extern dim3 block_size, grid_size;
void* dynamic_shared();
/// Runs `body` on every thread of every block, block by block.
void run(dim3 blocks, dim3 threads, size_t shared, const std::function<void()>& body);
/// Enqueues work, done when something waits for it, in an order limited only by streams and events.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Work with other processes: `begin` starts it, anew in each run of a graph, and its result is polled until
/// complete.
using Poll = std::function<bool()>;
void enqueue_poll(cudaStream_t stream, std::function<Poll()> begin);
/// A profiler of the runtime's calls and of the device's work: emulated_cupti.cpp's.
class Profiler {
 public:
  enum class Call : uint8_t { launch, copy, fill, launch_graph, query, event };
  virtual ~Profiler() = default;
  /// From the calling thread; returns the call's id, by which its work is reported.
  virtual uint32_t called(Call call) = 0;
  /// A launch, copy or fill was captured, or copied into an executable graph: returns the node's id.
  virtual uint64_t captured() = 0;
  virtual uint64_t copied(uint64_t node) = 0;
  virtual void ran(Call what, uint32_t call, uint64_t node, int64_t begin_ns, int64_t end_ns) = 0;
};
/// The choice between several ready streams. The two deterministic ones delay a copy as long as possible, or
/// run it before all older work, so that a missing wait always shows.
enum class Schedule : uint8_t { random, oldest_first, newest_first };  // by the streams' creation
void set_schedule(Schedule schedule, uint64_t seed = 0);
/// Which of a block's warps run first. Those ahead show what a missing barrier lets them do.
enum class WarpOrder : uint8_t { in_turn, first_ahead, last_ahead };
void set_warp_order(WarpOrder order);
void block_barrier();
void warp_barrier();
uint64_t exchange(uint64_t bits, int lane_mask);  // with the lane at lane ^ mask
/// Registers of all lanes for a matrix instruction, by lane: four of A, two of B.
struct Gathered {
  const uint32_t* lane[32];
};
Gathered gather(const uint32_t (&a)[4], const uint32_t (&b)[2]);
void wait_until(const std::function<bool()>& true_now);  // lets others run
/// Waits until `threads` threads of the block wait at the same barrier
void named_barrier(int id, int threads);
bool any_in_barrier(int id, int threads, bool x);
/// Work of the copy engine for this block: done when no thread can go on without it, so that a missing wait
/// shows
void copy_late(std::function<void()> copy);
/// Products of this thread that were begun and not waited for: work, by committed groups; the last is open.
std::vector<std::vector<std::function<void()>>>& unfinished_products();

inline float operand_of(uint32_t bits, float) {
  return __builtin_bit_cast(float, bits & ~0x1fffu);  // tf32: the hardware ignores the other bits
}
template <class T>
float operand_of(uint32_t bits, T) {  // of 16 bits, in the lower half
  const auto half = static_cast<uint16_t>(bits);
  T x;
  __builtin_memcpy(static_cast<void*>(&x), &half, 2);
  return static_cast<float>(x);
}
/// c += a b by the tables of the PTX manual for mma.m16n8k16 (16 bits) and mma.m16n8k8 (tf32), with W
/// elements a register: A's [row][k] is in lane row % 8 * 4 + k % (K / 2) / W, register row / 8 + 2 * (k / (K
/// / 2)); B's [k][column] is in lane column * 4 + k % (K / 2) / W, register k / (K / 2).
template <class T>
void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  constexpr int kWide = 4 / sizeof(T), kHalf = 4 * kWide, kK = 2 * kHalf;
  const Gathered all = gather(a, b);
  const int lane = static_cast<int>(thread.x) % 32;
  const auto element = [](uint32_t reg, int k) { return operand_of(reg >> (k % kWide * 16), T{}); };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < kK; ++k) {
      const int at = k % kHalf / kWide, upper = k / kHalf;
      c[i] += element(all.lane[row % 8 * 4 + at][row / 8 + 2 * upper], k) *
              element(all.lane[column * 4 + at][4 + upper], k);
    }
  }
}
}  // namespace isobar::emulator

#define threadIdx isobar::emulator::thread
#define blockIdx isobar::emulator::block
#define blockDim isobar::emulator::block_size
#define gridDim isobar::emulator::grid_size

inline void __syncthreads() {
  isobar::emulator::block_barrier();
}
inline void __syncwarp() {
  isobar::emulator::warp_barrier();
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof x);
  bits = isobar::emulator::exchange(bits, mask);
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline double cospi(double x) {
  return std::cos(x * 3.14159265358979323846);
}
inline unsigned __float_as_uint(float x) {
  return __builtin_bit_cast(unsigned, x);
}
inline float __uint_as_float(unsigned x) {
  return __builtin_bit_cast(float, x);
}
using std::isfinite;

#include "tests/cuda/emulated/emulated_hopper.h"
