// Row kernels: elementwise passes and layer norm over a range that one thread owns. Column sums go to the
// caller's partial, and partials are added in thread order. Included like simd_avx512.h: inside an unnamed
// namespace, after simd_math.h.

template <class V, DType kAct>
inline typename V::Reg load_act(const void* base, int64_t i, int64_t n) {
  if constexpr (kAct == DType::bf16) {
    const bf16* p = static_cast<const bf16*>(base) + i;
    return n == V::kWidth ? V::load_bf16(p) : V::load_bf16_n(p, n);
  } else if constexpr (kAct == DType::f16) {
    const f16* p = static_cast<const f16*>(base) + i;
    return n == V::kWidth ? V::load_f16(p) : V::load_f16_n(p, n);
  } else {
    const float* p = static_cast<const float*>(base) + i;
    return n == V::kWidth ? V::load(p) : V::load_n(p, n);
  }
}

template <class V, DType kAct>
inline void store_act(void* base, int64_t i, typename V::Reg x, int64_t n) {
  if constexpr (kAct == DType::bf16) {
    bf16* p = static_cast<bf16*>(base) + i;
    n == V::kWidth ? V::store_bf16(p, x) : V::store_bf16_n(p, x, n);
  } else if constexpr (kAct == DType::f16) {
    f16* p = static_cast<f16*>(base) + i;
    n == V::kWidth ? V::store_f16(p, x) : V::store_f16_n(p, x, n);
  } else {
    float* p = static_cast<float*>(base) + i;
    n == V::kWidth ? V::store(p, x) : V::store_n(p, x, n);
  }
}

template <class V>
inline int64_t lanes_left(int64_t i, int64_t n) {
  return std::min<int64_t>(V::kWidth, n - i);
}

constexpr int64_t kRowBlock =
    8;  // rows whose column sums are kept in registers before the partial is touched

// ---- elementwise ----
// Degree of exp2's polynomial: bf16 needs less.
constexpr int degree_for(DType act) {
  return act == DType::bf16 ? 4 : 6;
}

template <class V, DType kAct, Activation kF>
void activation_forward_part(int64_t n, const void* u, void* g) {
  constexpr int W = V::kWidth, kTogether = 4;  // independent chains overlap
  const ActivationOf<V, kF, degree_for(kAct)> f;
  int64_t i = 0;
  for (; i + kTogether * W <= n; i += kTogether * W) {
    typename V::Reg x[kTogether];
#pragma GCC unroll 8
    for (int j = 0; j < kTogether; ++j) x[j] = load_act<V, kAct>(u, i + j * W, W);
#pragma GCC unroll 8
    for (int j = 0; j < kTogether; ++j) store_act<V, kAct>(g, i + j * W, f(x[j]), W);
  }
  for (; i < n; i += W) {
    const int64_t m = lanes_left<V>(i, n);
    store_act<V, kAct>(g, i, f(load_act<V, kAct>(u, i, m)), m);
  }
}

// Row by row, so that memory is read front to back; column sums stay in the L1 cache
template <class V, DType kAct, Activation kF>
void activation_backward_rows(int64_t rows, int64_t cols, const void* u, const void* dg, void* du,
                              float* column_sums) {
  const SlopeOf<V, kF, degree_for(kAct)> slope_of_u;
  std::fill_n(column_sums, cols, 0.0f);
  for (int64_t r = 0; r < rows; ++r)
    for_vectors<V>(
        cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          const int64_t at = r * cols + j;
          const typename V::Reg d =
              V::mul(load_act<V, kAct>(dg, at, m), slope_of_u(load_act<V, kAct>(u, at, m)));
          store_act<V, kAct>(du, at, d, m);
          store_act<V, DType::f32>(column_sums, j, V::add(load_act<V, DType::f32>(column_sums, j, m), d), m);
        });
}

template <class V, DType kAct>
void column_sum_rows(int64_t rows, int64_t cols, const void* x, float* column_sums) {
  std::fill_n(column_sums, cols, 0.0f);
  for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
    const int64_t r1 = std::min(rows, r0 + kRowBlock);
    for_vectors<V>(
        cols, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
          typename V::Reg sum = load_act<V, DType::f32>(column_sums, j, m);
          for (int64_t r = r0; r < r1; ++r) sum = V::add(sum, load_act<V, kAct>(x, r * cols + j, m));
          store_act<V, DType::f32>(column_sums, j, sum, m);
        });
  }
}

template <class V>
void add_part(int64_t n, const float* x, float* y) {
  for_vectors<V>(
      n, [&](int64_t i, int64_t m) __attribute__((always_inline)) {
        store_act<V, DType::f32>(
            y, i, V::add(load_act<V, DType::f32>(y, i, m), load_act<V, DType::f32>(x, i, m)), m);
      });
}

template <class V>
void normalise_part(int64_t n, const float* x, const float* mean, const float* std, float* y) {
  int64_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth)
    V::store(y + i, V::div(V::sub(V::load(x + i), V::load(mean + i)), V::load(std + i)));
  for (; i < n; ++i) y[i] = (x[i] - mean[i]) / std[i];
}

template <class V, DType kFrom, DType kTo>
void cast_part(int64_t n, const void* x, void* y) {
  for_vectors<V>(
      n, [&](int64_t i, int64_t m)
             __attribute__((always_inline)) { store_act<V, kTo>(y, i, load_act<V, kFrom>(x, i, m), m); });
}

template <class V>
void round_tf32_part(int64_t n, const float* x, float* y) {
  for_vectors<V>(
      n, [&](int64_t i, int64_t m) __attribute__((always_inline)) {
        store_act<V, DType::f32>(y, i, V::round_tf32(load_act<V, DType::f32>(x, i, m)), m);
      });
}

// Sums of (guess - truth)^2 and of truth^2 over a line of an image, in f32
template <class V>
void squares_part(int64_t n, const float* guess, const float* truth, float sums[2]) {
  constexpr int kChains = 4;
  typename V::Reg error[kChains], size[kChains];
  for (int c = 0; c < kChains; ++c) error[c] = size[c] = V::zero();
  int64_t i = 0;
  const auto add = [&](int c, int64_t at, int64_t m) __attribute__((always_inline)) {
    const typename V::Reg t = load_act<V, DType::f32>(truth, at, m);
    const typename V::Reg e = V::sub(load_act<V, DType::f32>(guess, at, m), t);
    error[c] = V::fma(e, e, error[c]);
    size[c] = V::fma(t, t, size[c]);
  };
  for (; i + kChains * V::kWidth <= n; i += kChains * V::kWidth)
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) add(c, i + c * V::kWidth, V::kWidth);
  for (; i < n; i += V::kWidth) add(0, i, lanes_left<V>(i, n));
  sums[0] = V::sum(V::add(V::add(error[0], error[1]), V::add(error[2], error[3])));
  sums[1] = V::sum(V::add(V::add(size[0], size[1]), V::add(size[2], size[3])));
}

template <class V>
double squared_sum_part(int64_t n, const float* x) {
  constexpr int64_t kRun = 64 * V::kWidth;  // f32 within a run, double across runs
  double total = 0;
  for (int64_t i0 = 0; i0 < n; i0 += kRun) {
    typename V::Reg even = V::zero(), odd = V::zero();
    for (int64_t i = i0; i < std::min(n, i0 + kRun); i += 2 * V::kWidth) {
      const typename V::Reg a = load_act<V, DType::f32>(x, i, lanes_left<V>(i, n));
      even = V::fma(a, a, even);
      if (i + V::kWidth < n) {
        const typename V::Reg b = load_act<V, DType::f32>(x, i + V::kWidth, lanes_left<V>(i + V::kWidth, n));
        odd = V::fma(b, b, odd);
      }
    }
    total += static_cast<double>(V::sum(V::add(even, odd)));
  }
  return total;
}

// ---- Adam ----
// torch.optim.Adam: p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
template <class V, DType k16>
void adam_part(const AdamFactors& f, int64_t n, float* p, const float* g, float* m, float* v, void* p16) {
  using Reg = typename V::Reg;
  const Reg b1 = V::set1(f.beta1), c1 = V::set1(f.one_minus_beta1);
  const Reg b2 = V::set1(f.beta2), c2 = V::set1(f.one_minus_beta2);
  const Reg unscale = V::set1(f.grad_scale), decay = V::set1(f.decay), shrink = V::set1(f.shrink);
  const Reg step = V::set1(-f.step_size), eps = V::set1(f.eps), v_scale = V::set1(f.inverse_sqrt_correction2);
  for_vectors<V>(
      n, [&](int64_t i, int64_t k) __attribute__((always_inline)) {
        Reg w = load_act<V, DType::f32>(p, i, k);
        w = V::fma(w, shrink, w);
        const Reg grad = V::fma(w, decay, V::mul(load_act<V, DType::f32>(g, i, k), unscale));
        const Reg m1 = V::fma(c1, grad, V::mul(b1, load_act<V, DType::f32>(m, i, k)));
        const Reg v1 = V::fma(V::mul(c2, grad), grad, V::mul(b2, load_act<V, DType::f32>(v, i, k)));
        w = V::fma(step, V::div(m1, V::fma(V::sqrt(v1), v_scale, eps)), w);
        store_act<V, DType::f32>(m, i, m1, k);
        store_act<V, DType::f32>(v, i, v1, k);
        store_act<V, DType::f32>(p, i, w, k);
        if (p16 != nullptr) store_act<V, k16>(p16, i, w, k);
      });
}

// torch.optim.SGD: buf = momentum buf + grad; p -= lr buf
template <class V, DType k16>
void sgd_part(const Sgd& f, int64_t n, float* p, const float* g, float* buf, void* p16) {
  using Reg = typename V::Reg;
  const Reg momentum = V::set1(f.momentum), decay = V::set1(f.weight_decay), unscale = V::set1(f.grad_scale);
  const Reg step = V::set1(-f.lr);
  for_vectors<V>(
      n, [&](int64_t i, int64_t k) __attribute__((always_inline)) {
        Reg w = load_act<V, DType::f32>(p, i, k);
        const Reg grad = V::fma(w, decay, V::mul(load_act<V, DType::f32>(g, i, k), unscale));
        const Reg b = V::fma(momentum, load_act<V, DType::f32>(buf, i, k), grad);
        w = V::fma(step, b, w);
        store_act<V, DType::f32>(buf, i, b, k);
        store_act<V, DType::f32>(p, i, w, k);
        if (p16 != nullptr) store_act<V, k16>(p16, i, w, k);
      });
}
