// SwiGLU over rows that one thread owns: a row of u is gate, then up. Included like rows.h, after it.

template <class V, DType kAct>
void swiglu_rows(int64_t rows, int64_t cols, const void* u, void* g) {
  const ActivationOf<V, Activation::silu, degree_for(kAct)> silu;
  for (int64_t r = 0; r < rows; ++r)
    for_vectors<V>(
        cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const int64_t gate = 2 * r * cols + j;
          const typename V::Reg up = load_act<V, kAct>(u, gate + cols, m);
          store_act<V, kAct>(g, r * cols + j, V::mul(silu(load_act<V, kAct>(u, gate, m)), up), m);
        });
}

template <class V, DType kAct>
void swiglu_backward_rows(int64_t rows, int64_t cols, const void* u, const void* dg, void* du) {
  using Reg = typename V::Reg;
  const ActivationOf<V, Activation::silu, degree_for(kAct)> silu;
  const SlopeOf<V, Activation::silu, degree_for(kAct)> slope;
  for (int64_t r = 0; r < rows; ++r)
    for_vectors<V>(
        cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const int64_t at = 2 * r * cols + j;
          const Reg gate = load_act<V, kAct>(u, at, m), up = load_act<V, kAct>(u, at + cols, m);
          const Reg d = load_act<V, kAct>(dg, r * cols + j, m);
          store_act<V, kAct>(du, at, V::mul(V::mul(d, up), slope(gate)), m);
          store_act<V, kAct>(du, at + cols, V::mul(d, silu(gate)), m);
        });
}
