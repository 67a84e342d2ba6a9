// Graph networks: gathers, segment sums and the layer norm of messages, over rows that one thread owns.
// Included like rows.h, after norm_rows.h.

// Rows [row0, row1) of all samples' rows: y = base + table[index] + table2[index2]; absent operands and rows
// with a negative index are left out
template <class V, DType kAct, DType kBase>
void gather_rows(const Gather& p, int64_t row0, int64_t row1, const void* base, const void* table,
                 const int32_t* index, const void* table2, const int32_t* index2, void* y) {
  using Reg = typename V::Reg;
  const int64_t n = p.cols;
  for (int64_t r = row0; r < row1; ++r) {
    const int64_t sample = r / p.rows, of = r % p.rows;
    const bool one = index[of] >= 0, two = table2 != nullptr && index2[of] >= 0;
    const int64_t from = one ? (sample * p.table_rows + index[of]) * n : 0;
    const int64_t from2 = two ? (sample * p.table2_rows + index2[of]) * n : 0;
    for (int64_t j = 0; j < n; j += V::kWidth) {
      const int64_t m = lanes_left<V>(j, n);
      Reg sum = one ? load_act<V, kAct>(table, from + j, m) : V::zero();
      if (two) sum = V::add(sum, load_act<V, kAct>(table2, from2 + j, m));
      if (base != nullptr) sum = V::add(load_act<V, kBase>(base, r * n + j, m), sum);
      store_act<V, kAct>(y, r * n + j, sum, m);
    }
  }
}

// Segments [s0, s1) of all samples' segments: each the sum of its rows in f32, in order. Eight registers of
// columns at a time, so that rows are read in long runs.
template <class V, DType kAct>
void segment_sum_rows(const SegmentSum& p, int64_t s0, int64_t s1, const void* x, const int32_t* offsets,
                      const int32_t* order, void* y) {
  using Reg = typename V::Reg;
  constexpr int kRegs = 8;
  const int64_t n = p.cols;
  for (int64_t s = s0; s < s1; ++s) {
    const int64_t sample = s / p.segments, of = s % p.segments, first = sample * p.rows;
    for (int64_t j0 = 0; j0 < n; j0 += kRegs * V::kWidth) {
      Reg sum[kRegs];
      for (Reg& part : sum) part = V::zero();
      for (int32_t i = offsets[of]; i < offsets[of + 1]; ++i) {
        const int64_t from = (first + (order != nullptr ? order[i] : i)) * n;
        for (int k = 0; k < kRegs; ++k) {
          const int64_t j = j0 + k * V::kWidth;
          if (j < n) sum[k] = V::add(sum[k], load_act<V, kAct>(x, from + j, lanes_left<V>(j, n)));
        }
      }
      for (int k = 0; k < kRegs; ++k) {
        const int64_t j = j0 + k * V::kWidth;
        if (j < n) store_act<V, kAct>(y, s * n + j, sum[k], lanes_left<V>(j, n));
      }
    }
  }
}

// rows [row0, row1): h = LayerNorm(x) gamma + beta, y = residual + h; `row`: cols floats of this thread's
template <class V, DType kAct>
void norm_residual_rows(const ResidualNorm& p, int64_t row0, int64_t row1, const void* x,
                        const float* residual, const float* gamma, const float* beta, void* h, float* y,
                        float* mean, float* rstd, float* row) {
  using Reg = typename V::Reg;
  for (int64_t r = row0; r < row1; ++r) {
    const float* from = row;
    if constexpr (kAct == DType::f32)
      from = static_cast<const float*>(x) + r * p.cols;
    else
      for (int64_t j = 0; j < p.cols; j += V::kWidth) {
        const int64_t m = lanes_left<V>(j, p.cols);
        store_act<V, DType::f32>(row, j, load_act<V, kAct>(x, r * p.cols + j, m), m);
      }
    mean[r] = row_mean<V, DType::f32>(from, 0, p.cols);
    rstd[r] = 1.0f / std::sqrt(row_variance<V, DType::f32>(from, 0, p.cols, mean[r]) + p.eps);
    if (h == nullptr && y == nullptr) continue;
    const Reg scale = V::set1(rstd[r]), shift = V::set1(-mean[r] * rstd[r]);
    for (int64_t j = 0; j < p.cols; j += V::kWidth) {
      const int64_t m = lanes_left<V>(j, p.cols), at = r * p.cols + j;
      const Reg normal = V::fma(load_act<V, DType::f32>(from, j, m), scale, shift);
      const Reg out =
          V::fma(normal, load_act<V, DType::f32>(gamma, j, m), load_act<V, DType::f32>(beta, j, m));
      if (h != nullptr) store_act<V, kAct>(h, at, out, m);
      if (y == nullptr) continue;
      store_act<V, DType::f32>(
          y, at, residual != nullptr ? V::add(load_act<V, DType::f32>(residual, at, m), out) : out, m);
    }
  }
}
