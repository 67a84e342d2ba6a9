// A linear layer of a small net over many rows, in f32: y[m, n] = x[m, k] w[n, k]^T + bias[n]. A library's
// product packs both operands and adds to a y that was filled with the bias before; here the weight alone is
// turned round, 64 outputs at a time, rows are read as they lie, and the bias is added to the registers.
// Included like simd_avx512.h: inside an unnamed namespace, after matmul_tile.h and attention_pack.h.
//
// n: a multiple of kWidth; k: at most kLinearTerms. Each sum runs over k in order, the bias comes last.
template <class V>
void linear_rows(int64_t m, int64_t n, int64_t k, const float* x, const float* w, const float* bias,
                 float* y) {
  alignas(64) float columns[kLinearTerms * kQueryTile];
  for (int64_t j = 0; j < n; j += kQueryTile) {
    const int64_t outputs = std::min(kQueryTile, n - j);
    pack_columns<float>(reinterpret_cast<const char*>(w + j * k), k, outputs, k, columns);
    matmul_tile<V, DotF32<V>, false>(m, outputs, k, x, k, columns, kQueryTile, y + j, n, Into::kAddRow,
                                     bias + j);
  }
}
