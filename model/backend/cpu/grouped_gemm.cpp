// Products of groups of rows whose sizes are data. oneDNN compiles its bf16 kernel for each number of rows,
// so groups are cut into few sizes of them.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

constexpr int64_t kLeast = 32, kMost = 4096;  // rows of a product: powers of two between

const std::byte* at(const void* of, int64_t elements, DType t) {
  return static_cast<const std::byte*>(of) + elements * size_of(t);
}
std::byte* at(void* of, int64_t elements, DType t) {
  return static_cast<std::byte*>(of) + elements * size_of(t);
}

bool compiled_by_size(const Gemm& g) {
  return g.a == DType::bf16;
}

// f(first row, rows) of each product of a group
template <class F>
void each_piece(const Gemm& g, int64_t rows, const F& f) {
  if (!compiled_by_size(g) && rows > 0) return f(int64_t{0}, rows);
  for (int64_t done = 0; done < rows;) {
    const int64_t left = rows - done;
    const int64_t piece =
        left < kLeast ? left
                      : std::min(kMost, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(left))));
    f(done, piece);
    done += piece;
  }
}

// Rows of a group's C. Few rows are filled up, so that they are a product of the least size.
void rows_of_group(const Gemm& g, int64_t first, int64_t rows, const void* A, const void* B, void* C) {
  each_piece(g, rows, [&](int64_t from, int64_t piece) {
    Gemm part = g;
    part.m = piece;
    const void* const a = at(A, (first + from) * g.k, g.a);
    void* const c = at(C, (first + from) * g.n, g.c);
    if (!compiled_by_size(g) || piece >= kLeast) return gemm(part, a, B, nullptr, c);
    thread_local std::vector<std::byte> room;
    const int64_t of_a = kLeast * g.k * size_of(g.a), of_c = kLeast * g.n * size_of(g.c);
    room.resize(static_cast<size_t>(of_a + of_c));
    std::byte *const wide_a = room.data(), *const wide_c = wide_a + of_a;
    std::memset(wide_a, 0, static_cast<size_t>(of_a));
    std::memcpy(wide_a, a, static_cast<size_t>(piece * g.k * size_of(g.a)));
    const auto bytes = static_cast<size_t>(piece * g.n * size_of(g.c));
    if (g.accumulate) std::memcpy(wide_c, c, bytes);
    part.m = kLeast;
    gemm(part, wide_a, B, nullptr, wide_c);
    std::memcpy(c, wide_c, bytes);
  });
}

// C[m, n] (+)= A[rows, m]^T B[rows, n]
void sum_of_group(const Gemm& g, int64_t first, int64_t rows, const void* A, const void* B, void* C) {
  if (rows == 0 && !g.accumulate) std::memset(C, 0, static_cast<size_t>(g.m * g.n * size_of(g.c)));
  bool adds = g.accumulate;
  each_piece(g, rows, [&](int64_t from, int64_t piece) {
    Gemm part = g;
    part.k = piece;
    part.accumulate = adds;
    adds = true;
    gemm(part, at(A, (first + from) * g.m, g.a), at(B, (first + from) * g.n, g.b), nullptr, C);
  });
}

}  // namespace

void grouped_gemm(const Gemm& g, int64_t groups, const int32_t* offsets, const void* A, const void* B,
                  void* C) {
  for (int64_t e = 0; e < groups; ++e) {
    const int64_t first = offsets[e], rows = offsets[e + 1] - first;
    if (g.trans_a)
      sum_of_group(g, first, rows, A, B, at(C, e * g.m * g.n, g.c));
    else
      rows_of_group(g, first, rows, A, at(B, e * g.k * g.n, g.b), C);
  }
}

}  // namespace isobar::cpu
