// Residual add and RMSNorm over rows that one thread owns. Included like rows.h, after norm_rows.h.

// rows [row0, row1); kX: type of the residual and x, which is normalised as it is rounded there
template <class V, DType kAct, DType kX>
void rms_norm_rows(const RmsNorm& p, int64_t row0, int64_t row1, const void* residual, const void* y,
                   const float* gamma, void* x, void* h, float* rstd) {
  using Reg = typename V::Reg;
  for (int64_t r = row0; r < row1; ++r) {
    const int64_t at = p.in_x(r), at_y = r * p.cols, at_h = p.in_h(r);
    const void* from = residual;
    if (y != nullptr) {
      for_vectors<V>(
          p.cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
            store_act<V, kX>(x, at + j,
                             V::add(load_act<V, kX>(residual, at + j, m), load_act<V, kAct>(y, at_y + j, m)),
                             m);
          });
      from = x;
    }
    Reg squares = V::zero();
    for_vectors<V>(
        p.cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const Reg v = load_act<V, kX>(from, at + j, m);
          squares = V::fma(v, v, squares);
        });
    rstd[r] = 1.0f / std::sqrt(V::sum(squares) / static_cast<float>(p.cols) + p.eps);
    const Reg scale = V::set1(rstd[r]);
    for_vectors<V>(
        p.cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const Reg normal = V::mul(load_act<V, kX>(from, at + j, m), scale);
          store_act<V, kAct>(h, at_h + j, V::mul(normal, load_act<V, DType::f32>(gamma, j, m)), m);
        });
  }
}

// Rows [row0, row1); sums [cols]: partial of dgamma, overwritten; kX: type of x and dx.
// dx = rstd (g - xhat mean(g xhat)) with g = dh gamma and xhat = x rstd
template <class V, DType kAct, DType kX>
void rms_norm_backward_rows(const RmsNorm& p, int64_t row0, int64_t row1, const void* x, const float* rstd,
                            const float* gamma, const void* dh, void* dx, bool first, void* dy_act,
                            float* sums) {
  using Reg = typename V::Reg;
  std::fill_n(sums, p.cols, 0.0f);
  for (int64_t r = row0; r < row1; ++r) {
    const int64_t at = p.in_x(r), at_y = r * p.cols, at_h = p.in_h(r);
    const Reg scale = V::set1(rstd[r]);
    Reg dot = V::zero();
    for_vectors<V>(
        p.cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const Reg g = V::mul(load_act<V, kAct>(dh, at_h + j, m), load_act<V, DType::f32>(gamma, j, m));
          dot = V::fma(g, V::mul(load_act<V, kX>(x, at + j, m), scale), dot);
        });
    const Reg slope = V::set1(V::sum(dot) / static_cast<float>(p.cols));
    for_vectors<V>(
        p.cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const Reg normal = V::mul(load_act<V, kX>(x, at + j, m), scale);
          const Reg d = load_act<V, kAct>(dh, at_h + j, m);
          store_act<V, DType::f32>(sums, j, V::fma(d, normal, load_act<V, DType::f32>(sums, j, m)), m);
          Reg g =
              V::mul(scale, V::sub(V::mul(d, load_act<V, DType::f32>(gamma, j, m)), V::mul(slope, normal)));
          if (!first) g = V::add(g, load_act<V, kX>(dx, at + j, m));
          store_act<V, kX>(dx, at + j, g, m);
          if (dy_act != nullptr) store_act<V, kAct>(dy_act, at_y + j, g, m);
        });
  }
}
