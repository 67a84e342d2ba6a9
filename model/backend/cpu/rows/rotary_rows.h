// Rotation of heads over rows that one thread owns. Included like rows.h, after it.

template <class V, DType kAct, bool kBackward>
void rotary_rows(const Rotary& p, int64_t row0, int64_t row1, const float* table, void* x) {
  using Reg = typename V::Reg;
  const int64_t half = p.d / 2;
  for (int64_t r = row0; r < row1; ++r) {
    const float *cosines = table + r % p.tokens * p.d, *sines = cosines + half;
    for (int64_t head = 0; head < p.cols; head += p.d)
      for_vectors<V>(
          half, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
            const int64_t at = r * p.ld + head + j;
            const Reg a = load_act<V, kAct>(x, at, m), b = load_act<V, kAct>(x, at + half, m);
            const Reg c = load_act<V, DType::f32>(cosines, j, m);
            Reg s = load_act<V, DType::f32>(sines, j, m);
            if constexpr (kBackward) s = V::sub(V::zero(), s);
            store_act<V, kAct>(x, at, V::sub(V::mul(a, c), V::mul(b, s)), m);
            store_act<V, kAct>(x, at + half, V::fma(a, s, V::mul(b, c)), m);
          });
  }
}
