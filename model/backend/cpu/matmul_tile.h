// Register-tiled matrix products for attention: small, with packed operands in cache. Included like
// simd_avx512.h: inside an unnamed namespace, after simd_math.h.
//
//   C[m, n] (+)= A[m, depth] B[depth, n]      C f32; A and B are 32-bit lanes, counted by `depth`: one
//                                             float or a pair of bf16 along the summed dimension (see Dot)
// A is read by broadcast, so it may be transposed; B and C are read by vectors of n.

enum class Into {
  kStore,
  kAdd,
  kScaleAdd,
  kAddRow
};  // C = AB; C += AB; C = C * alpha[n] + AB; AB + alpha[n]

// kAcross: A[i, p] lies at a[p * lda + i], else at a[i * lda + p]
template <class V, class Dot, bool kAcross, int kRows, int kVectors>
[[gnu::always_inline]] inline void register_tile(int64_t depth, const float* a, int64_t lda, const float* b,
                                                 int64_t ldb, float* c, int64_t ldc, Into into,
                                                 const float* alpha) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  Reg acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) acc[i][j] = V::zero();
  for (int64_t p = 0; p < depth; ++p) {
#pragma GCC unroll 2
    for (int step = 0; step < Dot::kSteps; ++step) {
      typename Dot::Operand bv[kVectors];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) bv[j] = Dot::load(b + j * W, step);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const typename Dot::Operand av = Dot::broadcast(kAcross ? a + i : a + i * lda, step);
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) acc[i][j] = Dot::mac(av, bv[j], acc[i][j]);
      }
    }
    b += ldb;
    a += kAcross ? lda : 1;
  }
  if (into == Into::kAdd) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) acc[i][j] = V::add(acc[i][j], V::load(c + i * ldc + j * W));
  } else if (into == Into::kScaleAdd) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j)
        acc[i][j] = V::fma(V::load(c + i * ldc + j * W), V::load(alpha + j * W), acc[i][j]);
  } else if (into == Into::kAddRow) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) acc[i][j] = V::add(acc[i][j], V::load(alpha + j * W));
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) V::store(c + i * ldc + j * W, acc[i][j]);
}

// all rows, n = kVectors * kWidth columns
template <class V, class Dot, bool kAcross, int kVectors>
[[gnu::noinline]] void row_loop(int64_t m, int64_t depth, const float* a, int64_t lda, const float* b,
                                int64_t ldb, float* c, int64_t ldc, Into into, const float* alpha) {
  constexpr int kRows = V::tile_rows(kVectors);
  const int64_t row_step = kAcross ? 1 : lda;
  int64_t i = 0;
  for (; i + kRows <= m && !(kRows == 6 && m - i == 8); i += kRows)  // 8 = 4 + 4 rows: a remainder of 2 is
                                                                     // slow
    register_tile<V, Dot, kAcross, kRows, kVectors>(depth, a + i * row_step, lda, b, ldb, c + i * ldc, ldc,
                                                    into, alpha);
  if constexpr (kRows > 4)
    for (; i + 4 <= m; i += 4)
      register_tile<V, Dot, kAcross, 4, kVectors>(depth, a + i * row_step, lda, b, ldb, c + i * ldc, ldc,
                                                  into, alpha);
  if (i + 2 <= m) {
    register_tile<V, Dot, kAcross, 2, kVectors>(depth, a + i * row_step, lda, b, ldb, c + i * ldc, ldc, into,
                                                alpha);
    i += 2;
  }
  if (i < m)
    register_tile<V, Dot, kAcross, 1, kVectors>(depth, a + i * row_step, lda, b, ldb, c + i * ldc, ldc, into,
                                                alpha);
}

// n: a multiple of kWidth; alpha (kScaleAdd and kAddRow only) has n entries
template <class V, class Dot, bool kAcross>
void matmul_tile(int64_t m, int64_t n, int64_t depth, const float* a, int64_t lda, const float* b,
                 int64_t ldb, float* c, int64_t ldc, Into into, const float* alpha = nullptr) {
  constexpr int W = V::kWidth;
  constexpr int kMost = V::kTileVectors;
  for (int64_t j = 0; j < n; j += kMost * W) {
    const float* bj = b + j;
    const float* alpha_j = alpha == nullptr ? nullptr : alpha + j;
    float* cj = c + j;
    switch (std::min<int64_t>(kMost, (n - j) / W)) {
      case 1:
        row_loop<V, Dot, kAcross, 1>(m, depth, a, lda, bj, ldb, cj, ldc, into, alpha_j);
        break;
      case 2:
        row_loop<V, Dot, kAcross, 2>(m, depth, a, lda, bj, ldb, cj, ldc, into, alpha_j);
        break;
      default:
        if constexpr (kMost == 4) {
          if ((n - j) / W == 3)
            row_loop<V, Dot, kAcross, 3>(m, depth, a, lda, bj, ldb, cj, ldc, into, alpha_j);
          else
            row_loop<V, Dot, kAcross, 4>(m, depth, a, lda, bj, ldb, cj, ldc, into, alpha_j);
        }
        break;
    }
  }
}
