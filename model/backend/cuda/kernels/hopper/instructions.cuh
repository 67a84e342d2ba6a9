// Instructions of Hopper (sm_90a) behind plain functions: products of a warpgroup with operands in shared
// memory (wgmma), tile loads by the copy engine (TMA) that complete on barriers in shared memory (mbarrier),
// named barriers, and registers moved between warpgroups (setmaxnreg). In the emulator
// tests/cuda/emulated/emulated_hopper.h keeps the same contracts.
//
//   hopper::begin_products(c);
//   for (k …) hopper::multiply<T, N, …>(c, a, b, true);   // a, b: descriptors of shared memory
//   hopper::commit_products();
//   hopper::wait_for_products<0>(c);                       // now c may be read, a and b overwritten
//
// Shared tiles are panels of 64 16-bit columns: rows of 128 bytes, whose 16-byte chunks are swizzled (chunk ^
// row % 8), at addresses divisible by 1,024. A product reads a panel's columns as its inner dimension
// ("K-major") or its rows ("MN-major"). Formats: PTX ISA 9.0, 9.7.15.5.1, "Register Fragments and Shared
// Memory Matrix Layouts".
#pragma once
#include <cstdint>
#include <type_traits>

#include "model/backend/cuda/kernels/hopper/tile_map.h"
#include "model/backend/cuda/kernels/pack.cuh"

namespace isobar::cuda::hopper {

constexpr int kGroup = 128;        // threads of a warpgroup
constexpr int kPanelColumns = 64;  // of 16 bits
constexpr int kRowBytes = 128;     // of a panel
constexpr int kEightRows = 8 * kRowBytes;
constexpr int kInnerStep = 16;  // inner dimension of one product

#ifdef ISOBAR_EMULATED

using emulator::hopper::add_to_memory;
using emulator::hopper::any_in_barrier;
using emulator::hopper::arrive;
using emulator::hopper::begin_products;
using emulator::hopper::commit_products;
using emulator::hopper::elected;
using emulator::hopper::expect_bytes;
using emulator::hopper::fence_for_products;
using emulator::hopper::fence_new_barriers;
using emulator::hopper::load_bytes;
using emulator::hopper::load_tile;
using emulator::hopper::make_barrier;
using emulator::hopper::multiply;
using emulator::hopper::named_barrier;
using emulator::hopper::phase_over;
using emulator::hopper::power_of_two;
using emulator::hopper::set_registers;
using emulator::hopper::shared_address;
using emulator::hopper::shared_bytes;
using emulator::hopper::store_matrices;
using emulator::hopper::uniform;
using emulator::hopper::wait_for_phase;
using emulator::hopper::wait_for_products;

#else

__device__ inline unsigned char* shared_bytes() {
  extern __shared__ __align__(1024) unsigned char hopper_shared_memory[];
  return hopper_shared_memory;
}
__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Barriers in shared memory. Phase n of a barrier is complete after `arrivals` arrivals and all expected
// bytes.
__device__ inline void make_barrier(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}
/// After make_barrier, before the block's barrier that lets others use them
__device__ inline void fence_new_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives, and lets the phase wait for `bytes` bytes more
__device__ inline void expect_bytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
/// Waits for the end of a phase of that parity: 0 for the first, then 1, 0 …; parity 1 of a new barrier is
/// over.
__device__ inline void wait_for_phase(uint64_t* barrier, uint32_t parity) {
  const uint32_t at = shared_address(barrier);
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(at), "r"(parity)
        : "memory");
}
/// True if that phase is over, without waiting for long
__device__ inline bool phase_over(uint64_t* barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}
/// A barrier of `threads` threads of the block; ids 1 to 15
__device__ inline void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// The same, and whether `x` holds in any of them
__device__ inline bool any_in_barrier(int id, int threads, bool x) {
  int any;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.u32 p, %1, 0;\nbar.red.or.pred q, %2, %3, p;\nselp.u32 %0, 1, 0, q;\n}"
      : "=r"(any)
      : "r"(static_cast<int>(x)), "r"(id), "r"(threads)
      : "memory");
  return any != 0;
}

/// A tile of `map` from (column, head, token, sample) on, zeros beyond the tensor; adds its bytes to the
/// barrier
__device__ inline void load_tile(const TileMap& map, uint64_t* barrier, void* to, int column, int head,
                                 int token, int sample) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
      "%5, "
      "%6}], [%2];" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(barrier)), "r"(column), "r"(head), "r"(token),
      "r"(sample)
      : "memory");
}
/// Contiguous bytes, a multiple of 16, between addresses divisible by 16
__device__ inline void load_bytes(const void* from, uint64_t* barrier, void* to, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// For a whole warpgroup, once: its threads' registers from now on
template <int kRegisters, bool kMore>
__device__ inline void set_registers() {
  if constexpr (kMore)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// In one thread of the warp, which must be whole here. Without the thread's index, whose reading waits
/// behind loads.
__device__ inline bool elected() {
  uint32_t chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
  return chosen != 0;
}
/// x, which is the same in all threads of a warp, so that the compiler computes once a warp what depends on
/// it
__device__ inline int uniform(int x) {
  return __shfl_sync(0xffffffffu, x, 0);
}
/// A warp's four matrices of 8 x 8 in 16 bits, words[m] of matrix m as in a product's operand; thread t gives
/// the address of row t % 8 of matrix t / 8 in shared memory, 16 bytes. kTransposed: of its column
template <bool kTransposed>
__device__ inline void store_matrices(uint32_t row, const uint32_t (&words)[4]) {
  if constexpr (kTransposed)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

/// Makes this thread's stores to shared memory visible to products and tile loads after the next barrier
__device__ inline void fence_for_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Keeps the compiler from computing operands after a fence, and from reading sums before a wait: to it a
// product is done where it begins.
template <int kN>
__device__ inline void settle(float (&x)[kN]) {
#pragma unroll
  for (int i = 0; i < kN; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
template <int kSteps>
__device__ inline void settle(uint32_t (&x)[kSteps][4]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(x[k][i])::"memory");
}
/// Before products; names the registers that they use and other instructions wrote
template <class... Registers>
__device__ inline void begin_products(Registers&... written) {
  (settle(written), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most kLeft of the last committed groups of products are unfinished; names the sums that are
/// then done
template <int kLeft, class... Registers>
__device__ inline void wait_for_products(Registers&... done) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
  (settle(done), ...);
}

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Adds four floats to 16 aligned bytes of global memory, each atomically
__device__ inline void add_to_memory(float* to, float x0, float x1, float x2, float x3) {
  asm volatile(
      "red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
      "f"(x0), "f"(x1), "f"(x2), "f"(x3)
      : "memory");
}

// The operands of N columns' accumulators, N / 2 registers a thread, and those after them by number
#define ISOBAR_EIGHT(i)                                                                       \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define ISOBAR_SUMS_16 ISOBAR_EIGHT(0)
#define ISOBAR_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define ISOBAR_SUMS_32 ISOBAR_SUMS_16, ISOBAR_EIGHT(8)
#define ISOBAR_NAMES_32 ISOBAR_NAMES_16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define ISOBAR_SUMS_48 ISOBAR_SUMS_32, ISOBAR_EIGHT(16)
#define ISOBAR_NAMES_48 ISOBAR_NAMES_32 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define ISOBAR_SUMS_64 ISOBAR_SUMS_48, ISOBAR_EIGHT(24)
#define ISOBAR_NAMES_64 ISOBAR_NAMES_48 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define ISOBAR_SUMS_80 ISOBAR_SUMS_64, ISOBAR_EIGHT(32)
#define ISOBAR_NAMES_80 ISOBAR_NAMES_64 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define ISOBAR_SUMS_96 ISOBAR_SUMS_80, ISOBAR_EIGHT(40)
#define ISOBAR_NAMES_96 ISOBAR_NAMES_80 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define ISOBAR_SUMS_112 ISOBAR_SUMS_96, ISOBAR_EIGHT(48)
#define ISOBAR_NAMES_112 ISOBAR_NAMES_96 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define ISOBAR_SUMS_128 ISOBAR_SUMS_112, ISOBAR_EIGHT(56)
#define ISOBAR_NAMES_128 ISOBAR_NAMES_112 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define ISOBAR_SUMS_144 ISOBAR_SUMS_128, ISOBAR_EIGHT(64)
#define ISOBAR_NAMES_144 ISOBAR_NAMES_128 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define ISOBAR_SUMS_160 ISOBAR_SUMS_144, ISOBAR_EIGHT(72)
#define ISOBAR_NAMES_160 ISOBAR_NAMES_144 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define ISOBAR_SUMS_176 ISOBAR_SUMS_160, ISOBAR_EIGHT(80)
#define ISOBAR_NAMES_176 ISOBAR_NAMES_160 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define ISOBAR_SUMS_192 ISOBAR_SUMS_176, ISOBAR_EIGHT(88)
#define ISOBAR_NAMES_192 ISOBAR_NAMES_176 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define ISOBAR_SUMS_208 ISOBAR_SUMS_192, ISOBAR_EIGHT(96)
#define ISOBAR_NAMES_208 ISOBAR_NAMES_192 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define ISOBAR_SUMS_224 ISOBAR_SUMS_208, ISOBAR_EIGHT(104)
#define ISOBAR_NAMES_224 ISOBAR_NAMES_208 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define ISOBAR_SUMS_240 ISOBAR_SUMS_224, ISOBAR_EIGHT(112)
#define ISOBAR_NAMES_240 ISOBAR_NAMES_224 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define ISOBAR_SUMS_256 ISOBAR_SUMS_240, ISOBAR_EIGHT(120)
#define ISOBAR_NAMES_256 ISOBAR_NAMES_240 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define ISOBAR_WIDTH(f, n, ...)            \
  if constexpr (kN == n) {                 \
    if constexpr (std::is_same_v<T, Bf16>) \
      f(bf16, n, __VA_ARGS__);             \
    else                                   \
      f(f16, n, __VA_ARGS__);              \
  }
#define ISOBAR_FOR_EACH_WIDTH(f)                          \
  ISOBAR_WIDTH(f, 16, 8, 9, 10, 11, 12, 13, 14)           \
  ISOBAR_WIDTH(f, 32, 16, 17, 18, 19, 20, 21, 22)         \
  ISOBAR_WIDTH(f, 48, 24, 25, 26, 27, 28, 29, 30)         \
  ISOBAR_WIDTH(f, 64, 32, 33, 34, 35, 36, 37, 38)         \
  ISOBAR_WIDTH(f, 80, 40, 41, 42, 43, 44, 45, 46)         \
  ISOBAR_WIDTH(f, 96, 48, 49, 50, 51, 52, 53, 54)         \
  ISOBAR_WIDTH(f, 112, 56, 57, 58, 59, 60, 61, 62)        \
  ISOBAR_WIDTH(f, 128, 64, 65, 66, 67, 68, 69, 70)        \
  ISOBAR_WIDTH(f, 144, 72, 73, 74, 75, 76, 77, 78)        \
  ISOBAR_WIDTH(f, 160, 80, 81, 82, 83, 84, 85, 86)        \
  ISOBAR_WIDTH(f, 176, 88, 89, 90, 91, 92, 93, 94)        \
  ISOBAR_WIDTH(f, 192, 96, 97, 98, 99, 100, 101, 102)     \
  ISOBAR_WIDTH(f, 208, 104, 105, 106, 107, 108, 109, 110) \
  ISOBAR_WIDTH(f, 224, 112, 113, 114, 115, 116, 117, 118) \
  ISOBAR_WIDTH(f, 240, 120, 121, 122, 123, 124, 125, 126) \
  ISOBAR_WIDTH(f, 256, 128, 129, 130, 131, 132, 133, 134)

/// c += a b, or c = a b unless `add`, by descriptors (below). kRowsInner: the operand's inner dimension is
/// its rows ("MN-major").
template <class T, int kN, bool kARowsInner, bool kBRowsInner>
__device__ inline void multiply(float (&c)[kN / 2], uint64_t a, uint64_t b, bool add) {
#define ISOBAR_PRODUCT(t, n, i0, i1, i2, i3, i4, i5, i6)                                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #i2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n        \
               "k16.f32." #t "." #t " {" ISOBAR_NAMES_##n "}, %" #i0 ", %" #i1 ", p, 1, 1, %" #i3 ", %" #i4 \
                                                          ";\n}"                                            \
               : ISOBAR_SUMS_##n                                                                            \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kARowsInner), "n"(kBRowsInner))
  ISOBAR_FOR_EACH_WIDTH(ISOBAR_PRODUCT)
#undef ISOBAR_PRODUCT
}
/// The same with a in registers: rows lane / 4 (words 0 and 2) and 8 more (1 and 3) of the warp's 16, columns
/// 2 (lane % 4) and the next (0 and 1) and 8 more (2 and 3)
template <class T, int kN, bool kBRowsInner>
__device__ inline void multiply(float (&c)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool add) {
#define ISOBAR_PRODUCT(t, n, i0, i1, i2, i3, i4, i5, i6)                                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #i5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n        \
               "k16.f32." #t "." #t " {" ISOBAR_NAMES_##n "}, {%" #i0 ",%" #i1 ",%" #i2 ",%" #i3 "}, %" #i4 \
                                                          ", p, 1, 1, %" #i6 ";\n}"                         \
               : ISOBAR_SUMS_##n                                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),            \
                 "n"(kBRowsInner))
  ISOBAR_FOR_EACH_WIDTH(ISOBAR_PRODUCT)
#undef ISOBAR_PRODUCT
}

#endif

// Descriptors: the start's address, strides in bytes, and the swizzle of 128 bytes, all but the last over 16.
// Volatile, so that each is made where it is used: kept over a loop they would take the registers of sums.
__device__ inline uint64_t describe(uint32_t tile, int offset, uint32_t leading, uint32_t stride) {
  const uint32_t more = (static_cast<uint32_t>(offset) >> 4) + (leading >> 4 << 16),
                 high = stride >> 4 | 1u << 30;
#ifdef ISOBAR_EMULATED
  return uint64_t{high} << 32 | ((tile >> 4) + more);
#else
  uint64_t both;
  asm volatile("{\n.reg .u32 low;\nshr.u32 low, %1, 4;\nadd.u32 low, low, %2;\nmov.b64 %0, {low, %3};\n}"
               : "=l"(both)
               : "r"(tile), "r"(more), "r"(high));
  return both;
#endif
}
/// A matrix in panels of `rows` rows, whose inner dimension is its columns: the descriptor of columns 16 step
/// …
__device__ inline uint64_t columns_inner(uint32_t tile, int rows, int step) {
  constexpr int kSteps = kPanelColumns / kInnerStep;
  return describe(tile, step / kSteps * rows * kRowBytes + step % kSteps * 2 * kInnerStep, 16, kEightRows);
}
/// The same matrix with its rows as inner dimension: the descriptor of rows 16 step …
__device__ inline uint64_t rows_inner(uint32_t tile, int rows, int step) {
  return describe(tile, step * kInnerStep * kRowBytes, static_cast<uint32_t>(rows * kRowBytes), kEightRows);
}
/// Byte of a panel's element (row, column)
__device__ inline int byte_in_panel(int row, int column) {
  return row * kRowBytes + ((column / 8) ^ (row % 8)) * 16 + column % 8 * 2;
}

}  // namespace isobar::cuda::hopper
