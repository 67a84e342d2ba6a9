// A linear layer of a small net over many rows, in f32: y[m, n] = x[m, k] w[n, k]^T + bias[n]. Only the
// weight is packed, 64 outputs at a time; rows are read in place and the bias is added in registers. Included
// like simd_avx512.h: inside an unnamed namespace, after matmul_tile.h and attention_pack.h.
//
// n: a multiple of 16, or at most kFewOutputs; k: at most kLinearTerms. Each sum runs over k in order (with
// few outputs by lanes, then across); the bias comes last.

// columns [n / 64, rounded up][k][64]; with few outputs the weights unchanged, [n][k]
inline void pack_linear(int64_t n, int64_t k, const float* w, float* columns) {
  if (n <= kFewOutputs) {
    std::copy_n(w, n * k, columns);
    return;
  }
  for (int64_t j = 0; j < n; j += kQueryTile)
    pack_columns<float>(reinterpret_cast<const char*>(w + j * k), k, std::min(kQueryTile, n - j), k,
                        columns + j * k);
}

template <class V>
[[gnu::always_inline]] inline float dot_product(int64_t k, const float* x, const float* w) {
  typename V::Reg sum = V::zero();
  int64_t p = 0;
  for (; p + V::kWidth <= k; p += V::kWidth) sum = V::fma(V::load(x + p), V::load(w + p), sum);
  if (p < k) sum = V::fma(V::load_n(x + p, k - p), V::load_n(w + p, k - p), sum);
  return V::sum(sum);
}

template <class V>
void linear_rows(int64_t m, int64_t n, int64_t k, const float* x, const float* columns, const float* bias,
                 float* y) {
  if (n <= kFewOutputs) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] = dot_product<V>(k, x + i * k, columns + j * k) + bias[j];
    return;
  }
  for (int64_t j = 0; j < n; j += kQueryTile)
    matmul_tile<V, DotF32<V>, false>(m, std::min(kQueryTile, n - j), k, x, k, columns + j * k, kQueryTile,
                                     y + j, n, Into::kAddRow, bias + j);
}
