// SwiGLU over rows that one thread owns: a row of u is gate, then up. Included like rows.h, after it.

// scale (may be nullptr): factors of the rows
template <class V, DType kAct>
void swiglu_rows(int64_t rows, int64_t cols, const void* u, const float* scale, void* g) {
  const ActivationOf<V, Activation::silu, degree_for(kAct)> silu;
  for (int64_t r = 0; r < rows; ++r) {
    const typename V::Reg factor = V::set1(scale != nullptr ? scale[r] : 1.0f);
    for_vectors<V>(
        cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const int64_t gate = 2 * r * cols + j;
          const typename V::Reg up = V::mul(factor, load_act<V, kAct>(u, gate + cols, m));
          store_act<V, kAct>(g, r * cols + j, V::mul(silu(load_act<V, kAct>(u, gate, m)), up), m);
        });
  }
}

template <class V, DType kAct>
void swiglu_backward_rows(int64_t rows, int64_t cols, const void* u, const void* dg, const float* scale,
                          void* du, float* dscale) {
  using Reg = typename V::Reg;
  for (int64_t r = 0; r < rows; ++r) {
    const Reg factor = V::set1(scale != nullptr ? scale[r] : 1.0f);
    Reg sum = V::zero();
    for_vectors<V>(
        cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const int64_t at = 2 * r * cols + j;
          const Reg gate = load_act<V, kAct>(u, at, m), up = load_act<V, kAct>(u, at + cols, m);
          const Reg whole = load_act<V, kAct>(dg, r * cols + j, m), d = V::mul(factor, whole);
          Reg of_gate, slope;
          silu_of<V, degree_for(kAct)>(gate, &of_gate, &slope);
          if (dscale != nullptr) sum = V::fma(V::mul(whole, of_gate), up, sum);
          store_act<V, kAct>(du, at, V::mul(V::mul(d, up), slope), m);
          store_act<V, kAct>(du, at + cols, V::mul(d, of_gate), m);
        });
    if (dscale != nullptr) dscale[r] = V::sum(sum);
  }
}
