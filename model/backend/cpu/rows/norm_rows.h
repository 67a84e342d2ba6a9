// Residual add and layer norm over rows that one thread owns. Included like rows.h, after it.

// Mean of the row that begins at x[at]
template <class V, DType kX>
inline float row_mean(const void* x, int64_t at, int64_t cols) {
  typename V::Reg a = V::zero(), b = V::zero();
  int64_t j = 0;
  for (; j + 2 * V::kWidth <= cols; j += 2 * V::kWidth) {
    a = V::add(a, load_act<V, kX>(x, at + j, V::kWidth));
    b = V::add(b, load_act<V, kX>(x, at + j + V::kWidth, V::kWidth));
  }
  for (; j < cols; j += V::kWidth) a = V::add(a, load_act<V, kX>(x, at + j, lanes_left<V>(j, cols)));
  return V::sum(V::add(a, b)) / static_cast<float>(cols);
}

// Mean of (x - mean)^2 in two passes over a cached row, so large means do not cancel
template <class V, DType kX>
inline float row_variance(const void* x, int64_t at, int64_t cols, float mean) {
  const typename V::Reg mu = V::set1(mean);
  typename V::Reg a = V::zero(), b = V::zero();
  int64_t j = 0;
  for (; j + 2 * V::kWidth <= cols; j += 2 * V::kWidth) {
    const typename V::Reg x0 = V::sub(load_act<V, kX>(x, at + j, V::kWidth), mu);
    const typename V::Reg x1 = V::sub(load_act<V, kX>(x, at + j + V::kWidth, V::kWidth), mu);
    a = V::fma(x0, x0, a);
    b = V::fma(x1, x1, b);
  }
  float rest = 0;
  if (j < cols) {
    for (; j + V::kWidth <= cols; j += V::kWidth) {
      const typename V::Reg x0 = V::sub(load_act<V, kX>(x, at + j, V::kWidth), mu);
      a = V::fma(x0, x0, a);
    }
    if (j < cols) {  // lanes past the end would count as mean^2
      float last[V::kWidth];
      V::store(last, load_act<V, kX>(x, at + j, cols - j));
      for (int64_t i = 0; i < cols - j; ++i) rest += (last[i] - mean) * (last[i] - mean);
    }
  }
  return (V::sum(V::add(a, b)) + rest) / static_cast<float>(cols);
}

// rows [row0, row1); kX: type of the residual and x_out, which is normalised as it is rounded there
template <class V, DType kAct, DType kX>
void norm_forward_rows(const ResidualNorm& p, int64_t row0, int64_t row1, const void* residual, const void* y,
                       const float* gamma, const float* beta, void* x_out, void* h, float* mean,
                       float* rstd) {
  using Reg = typename V::Reg;
  for (int64_t r = row0; r < row1; ++r) {
    const void* x = residual;
    int64_t at = (p.period > 0 ? (p.row0 + r) % p.period : r) * p.cols;
    if (y != nullptr) {
      for (int64_t j = 0; j < p.cols; j += V::kWidth) {
        const int64_t m = lanes_left<V>(j, p.cols), to = r * p.cols + j;
        store_act<V, kX>(x_out, to, V::add(load_act<V, kX>(x, at + j, m), load_act<V, kAct>(y, to, m)), m);
      }
      x = x_out;
      at = r * p.cols;
    }
    mean[r] = row_mean<V, kX>(x, at, p.cols);
    rstd[r] = 1.0f / std::sqrt(row_variance<V, kX>(x, at, p.cols, mean[r]) + p.eps);
    const Reg scale = V::set1(rstd[r]), shift = V::set1(-mean[r] * rstd[r]);
    for (int64_t j = 0; j < p.cols; j += V::kWidth) {
      const int64_t m = lanes_left<V>(j, p.cols);
      const Reg normal = V::fma(load_act<V, kX>(x, at + j, m), scale, shift);
      store_act<V, kAct>(
          h, r * p.cols + j,
          V::fma(normal, load_act<V, DType::f32>(gamma, j, m), load_act<V, DType::f32>(beta, j, m)), m);
    }
  }
}

// Rows are too short for the hardware prefetcher.
template <DType kType>
inline void prefetch(const void* base, int64_t i) {
  __builtin_prefetch(static_cast<const char*>(base) + i * (kType == DType::f32 ? 4 : 2));
}

// Rows [row0, row1); sums: partials of dgamma, dbeta, dbias, [3][cols], overwritten; kX: type of x and dx
template <class V, DType kAct, DType kX>
void norm_backward_rows(const ResidualNorm& p, int64_t row0, int64_t row1, const void* x, const float* mean,
                        const float* rstd, const float* gamma, const void* dh, void* dx, bool first,
                        void* dy_act, float* sums) {
  using Reg = typename V::Reg;
  constexpr int64_t kRows = 4;
  const int64_t cols = p.cols;
  // Rows that stay in L1 between the two passes, prefetched ones included: fewer rows at 65 to 512 columns;
  // narrower rows fit anyway and wider ones do not.
  const int64_t together = cols > 64 && cols <= 512 ? kRows / 2 : kRows;
  const Reg inverse_cols = V::set1(1.0f / static_cast<float>(cols));
  std::fill_n(sums, 3 * cols, 0.0f);
  for (int64_t r0 = row0; r0 < row1; r0 += together) {
    const int64_t rows = std::min(together, row1 - r0);
    // dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dh gamma; = rstd g - a - b x
    Reg constant[kRows], slope[kRows];
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t r = r0 + i;
      const Reg scale = V::set1(rstd[r]), shift = V::set1(-mean[r] * rstd[r]);
      Reg sum = V::zero(), dot = V::zero();
      for (int64_t j = 0; j < cols; j += V::kWidth) {
        const int64_t m = lanes_left<V>(j, cols), at = r * cols + j;
        prefetch<kX>(x, at + together * cols), prefetch<kAct>(dh, at + together * cols);
        prefetch<kX>(dx, at);
        if (dy_act != nullptr) prefetch<kAct>(dy_act, at);
        const Reg g = V::mul(load_act<V, kAct>(dh, at, m), load_act<V, DType::f32>(gamma, j, m));
        sum = V::add(sum, g);
        dot = V::fma(g, V::fma(load_act<V, kX>(x, at, m), scale, shift), dot);
      }
      const Reg mean_g = V::mul(V::set1(V::sum(sum)), inverse_cols);
      const Reg mean_gx = V::mul(V::set1(V::sum(dot)), inverse_cols);
      slope[i] = V::mul(mean_gx, scale);  // times xhat
      constant[i] = V::mul(mean_g, scale);
    }
    for (int64_t j = 0; j < cols; j += V::kWidth) {
      const int64_t m = lanes_left<V>(j, cols);
      const Reg w = load_act<V, DType::f32>(gamma, j, m);
      Reg dgamma = load_act<V, DType::f32>(sums, j, m), dbeta = load_act<V, DType::f32>(sums, cols + j, m);
      Reg dbias = load_act<V, DType::f32>(sums, 2 * cols + j, m);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t r = r0 + i, at = r * cols + j;
        const Reg scale = V::set1(rstd[r]), shift = V::set1(-mean[r] * rstd[r]);
        const Reg normal = V::fma(load_act<V, kX>(x, at, m), scale, shift);
        const Reg d = load_act<V, kAct>(dh, at, m);
        dgamma = V::fma(d, normal, dgamma);
        dbeta = V::add(dbeta, d);
        Reg g = V::sub(V::mul(V::mul(d, w), scale), V::fma(slope[i], normal, constant[i]));
        if (!first) g = V::add(g, load_act<V, kX>(dx, at, m));
        store_act<V, kX>(dx, at, g, m);
        if (dy_act != nullptr) store_act<V, kAct>(dy_act, at, g, m);
        dbias = V::add(dbias, g);
      }
      store_act<V, DType::f32>(sums, j, dgamma, m);
      store_act<V, DType::f32>(sums, cols + j, dbeta, m);
      store_act<V, DType::f32>(sums, 2 * cols + j, dbias, m);
    }
  }
}
