// Hopper's instructions (model/backend/cuda/kernels/hopper/instructions.cuh) in the emulator, with their
// contracts: descriptors, swizzles and fragment layouts of products, phases and expected bytes of barriers.
// Asynchronous instructions take effect as late as PTX allows: products read their operands and write their
// sums when they are waited for, tiles arrive when no thread can go on without them. Fences and setmaxnreg do
// nothing here.
#pragma once
#include <algorithm>
#include <array>
#include <type_traits>

#include "model/backend/cuda/kernels/hopper/tile_map.h"

namespace isobar::emulator::hopper {

inline unsigned char* shared_bytes() {
  return static_cast<unsigned char*>(dynamic_shared());
}
inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(static_cast<const unsigned char*>(p) - shared_bytes());
}

// A barrier in its 8 bytes
struct Phase {
  uint32_t number : 8, arrivals : 12, left : 12;  // arrivals: of a phase
  int32_t bytes;                                  // still expected
};
static_assert(sizeof(Phase) == 8);
inline Phase phase_of(const uint64_t* barrier) {
  return __builtin_bit_cast(Phase, *barrier);
}
inline void set(uint64_t* barrier, Phase x) {
  if (x.left == 0 && x.bytes == 0) {
    x.number = (x.number + 1U) & 255U;
    x.left = x.arrivals;
  }
  *barrier = __builtin_bit_cast(uint64_t, x);
}
inline void make_barrier(uint64_t* barrier, uint32_t arrivals) {
  *barrier = __builtin_bit_cast(uint64_t, Phase{0, arrivals & 4095U, arrivals & 4095U, 0});
}
inline void fence_new_barriers() {}
inline void expect_bytes(uint64_t* barrier, uint32_t bytes) {
  Phase x = phase_of(barrier);
  if (x.left == 0) throw std::logic_error("more arrivals at a barrier than it has");
  x.left = (x.left - 1U) & 4095U;
  x.bytes += static_cast<int32_t>(bytes);
  set(barrier, x);
}
inline void arrive(uint64_t* barrier) {
  expect_bytes(barrier, 0);
}
inline void add_bytes(uint64_t* barrier, int64_t bytes) {
  Phase x = phase_of(barrier);
  x.bytes -= static_cast<int32_t>(bytes);
  set(barrier, x);
}
inline void wait_for_phase(uint64_t* barrier, uint32_t parity) {
  wait_until([=] { return phase_of(barrier).number % 2 != parity; });
}
inline bool phase_over(uint64_t* barrier, uint32_t parity) {
  return phase_of(barrier).number % 2 != parity;
}
using emulator::any_in_barrier;
using emulator::named_barrier;

inline uint32_t swizzled(uint32_t address) {
  return address ^ (address >> 7 & 7) << 4;
}
inline void load_tile(const cuda::TileMap& map, uint64_t* barrier, void* to, int column, int head, int token,
                      int sample) {
  const uint32_t at = shared_address(to);
  if (at % 1024 != 0) throw std::logic_error("a tile's address is not divisible by 1024");
  const cuda::TileMap copy = map;
  copy_late([=] {
    for (int row = 0; row < copy.rows; ++row)
      for (int c = 0; c < 64; ++c) {
        uint16_t x = 0;
        if (column + c < copy.dims[0] && head < copy.dims[1] && token + row < copy.dims[2] &&
            sample < copy.dims[3])
          std::memcpy(&x,
                      copy.base + (column + c) * copy.strides[0] + head * copy.strides[1] +
                          (token + row) * copy.strides[2] + sample * copy.strides[3],
                      2);
        std::memcpy(shared_bytes() + swizzled(at + static_cast<uint32_t>(row * 128 + c * 2)), &x, 2);
      }
    add_bytes(barrier, int64_t{128} * copy.rows);
  });
}
inline void load_bytes(const void* from, uint64_t* barrier, void* to, uint32_t bytes) {
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0 || shared_address(to) % 16 != 0 || bytes % 16 != 0)
    throw std::logic_error("a bulk copy is not of 16-byte units");
  copy_late([=] {
    std::memcpy(to, from, bytes);
    add_bytes(barrier, bytes);
  });
}

template <int kRegisters, bool kMore>
void set_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}
inline bool elected() {
  return thread.x % 32 == 0;
}
inline int uniform(int x) {
  return x;
}
template <bool kTransposed>
void store_matrices(uint32_t row, const uint32_t (&words)[4]) {
  if (row % 16 != 0) throw std::logic_error("a matrix's row is not on 16 bytes");
  const Gathered all = gather(words, {row, 0});
  const int lane = static_cast<int>(thread.x) % 32;
  for (int m = 0; m < 4; ++m)
    for (int i = 0; i < 2; ++i) {  // the word's elements, of row lane / 4 and column lane % 4 * 2 + i
      const int r = lane / 4, c = lane % 4 * 2 + i;
      const auto x = static_cast<uint16_t>(words[m] >> (i * 16));
      std::memcpy(shared_bytes() + all.lane[m * 8 + (kTransposed ? c : r)][4] + (kTransposed ? r : c) * 2, &x,
                  2);
    }
}
inline void fence_for_products() {}
template <class... Registers>
void begin_products(Registers&...) {
  if (unfinished_products().empty()) unfinished_products().emplace_back();
}
inline void commit_products() {
  unfinished_products().emplace_back();
}
template <int kLeft, class... Registers>
void wait_for_products(Registers&...) {
  auto& groups = unfinished_products();
  while (groups.size() > kLeft + 1) {
    for (const auto& product : groups.front()) product();
    groups.erase(groups.begin());
  }
  warp_barrier();
}

// Element (outer, inner) of an operand by its descriptor: PTX ISA, canonical layouts with 128-byte swizzle
template <class T>
float operand_at(uint64_t descriptor, bool rows_inner, int outer, int inner) {
  const auto field = [&](int bit) { return static_cast<uint32_t>(descriptor >> bit & 0x3fff) << 4; };
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0)
    throw std::logic_error("no descriptor of that kind");
  const uint32_t start = field(0), leading = field(16), stride = field(32);
  const auto m = static_cast<uint32_t>(outer), k = static_cast<uint32_t>(inner);
  const uint32_t within = rows_inner ? m % 64 / 8 * 16 : k / 8 * 16;
  if (start % 128 + within >= 128) throw std::logic_error("an operand leaves its panel's row");
  const uint32_t at = rows_inner ? m / 64 * leading + within + m % 8 * 2 + k / 8 * stride + k % 8 * 128
                                 : m / 8 * stride + m % 8 * 128 + within + k % 8 * 2;
  T x;
  std::memcpy(static_cast<void*>(&x), shared_bytes() + swizzled(start + at), 2);
  return static_cast<float>(x);
}
inline void begin_product(std::function<void()> product) {
  auto& groups = unfinished_products();
  if (groups.empty()) throw std::logic_error("a product before begin_products()");
  groups.back().push_back(std::move(product));
}
template <int kN, class A, class B>
void multiply_add(float* c, bool add, A&& a, B&& b) {
  const int lane = static_cast<int>(thread.x) % 32,
            row0 = static_cast<int>(thread.x) % 128 / 32 * 16 + lane / 4;
  float rows[2][16], column[16];
  for (int r = 0; r < 2; ++r)
    for (int k = 0; k < 16; ++k) rows[r][k] = a(row0 + r * 8, k);
  for (int j = 0; j < kN / 4; ++j) {
    for (int k = 0; k < 16; ++k) column[k] = b(j / 2 * 8 + lane % 4 * 2 + j % 2, k);
    for (int r = 0; r < 2; ++r) {
      float& to = c[j / 2 * 4 + r * 2 + j % 2];
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += rows[r][k] * column[k];
      to = add ? to + sum : sum;
    }
  }
}
template <class T, int kN, bool kARowsInner, bool kBRowsInner>
void multiply(float (&c)[kN / 2], uint64_t a, uint64_t b, bool add) {
  begin_product([=, sums = &c[0]] {
    multiply_add<kN>(
        sums, add, [&](int row, int k) { return operand_at<T>(a, kARowsInner, row, k); },
        [&](int column, int k) { return operand_at<T>(b, kBRowsInner, column, k); });
  });
}
template <class T, int kN, bool kBRowsInner>
void multiply(float (&c)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool add) {
  const Gathered all = gather(a, {0, 0});
  // The row's four lanes: words 0 and 2 are its own, 1 and 3 those of the row 8 below.
  const int first = static_cast<int>(thread.x) % 32 / 4 * 4;
  std::array<std::array<uint32_t, 4>, 4> words;
  for (int t = 0; t < 4; ++t) std::copy_n(all.lane[first + t], 4, words[static_cast<size_t>(t)].begin());
  begin_product([=, sums = &c[0]] {
    multiply_add<kN>(
        sums, add,
        [&](int row, int k) {
          const uint32_t word =
              words[static_cast<size_t>(k % 8 / 2)][static_cast<size_t>(k / 8 * 2 + row % 16 / 8)];
          return operand_of(word >> (k % 2 * 16), T{});
        },
        [&](int column, int k) { return operand_at<T>(b, kBRowsInner, column, k); });
  });
}

inline float power_of_two(float x) {
  return std::exp2(x);
}
inline void add_to_memory(float* to, float x0, float x1, float x2, float x3) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) throw std::logic_error("not on 16 bytes");
  to[0] += x0, to[1] += x1, to[2] += x2, to[3] += x3;
}

}  // namespace isobar::emulator::hopper
