// exp, erf and activations on registers, and the two products of 32-bit lanes: as a float, or as a pair of
// bf16. Included like simd_avx512.h: inside an unnamed namespace, after one of the simd_*.h.

// f(first element, elements) for each vector of n; all but the last are full, which the compiler can see
template <class V, class F>
[[gnu::always_inline]] inline void for_vectors(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) f(i, int64_t{V::kWidth});
  if (i < n) f(i, n - i);
}

// 2^x, relative error 3e-9 + rounding (kDegree 6) or 4e-6 (kDegree 4); minimax on [-1/2, 1/2] with p(0) = 1.
// 0 below 2^-100, so that products with factors >= 2^-26 are never denormal, whatever the thread's setting
// (base/system/denormals.h). x <= 126.
template <class V, int kDegree = 6>
inline typename V::Reg exp2(typename V::Reg x) {
  const typename V::Reg n = V::round(x);
  const typename V::Reg f = V::sub(x, n);
  typename V::Reg p;
  if constexpr (kDegree == 6) {
    p = V::fma(V::set1(1.5594678e-4f), f, V::set1(1.3406644e-3f));
    p = V::fma(p, f, V::set1(9.6176930e-3f));
    p = V::fma(p, f, V::set1(5.5503106e-2f));
    p = V::fma(p, f, V::set1(2.4022653e-1f));
    p = V::fma(p, f, V::set1(6.9314721e-1f));
  } else {
    static_assert(kDegree == 4);
    p = V::fma(V::set1(9.7829126e-3f), f, V::set1(5.5976884e-2f));
    p = V::fma(p, f, V::set1(2.4020711e-1f));
    p = V::fma(p, f, V::set1(6.9311360e-1f));
  }
  return V::ldexp_or_zero(V::fma(p, f, V::set1(1.0f)), n, -100.0f);
}

// For attention's scores, in place, where denormals are flushed (base/system/denormals.h): 0 below 2^-126.
// Relative error 2e-9 + rounding (kDegree 6) or 3e-6 (kDegree 4). x <= 126 unless V::kByFloor. N registers at
// once, since each is one long dependent chain.
template <class V, int kDegree, int N>
[[gnu::always_inline]] inline void exp2_flushed(typename V::Reg (&x)[N]) {
  static_assert(kDegree == 4 || kDegree == 6);
  constexpr float kTerms[4][6] = {
      // degree 4, 6 on [-1/2, 1/2]; the same on [0, 1]
      {6.9311360e-1f, 2.4020711e-1f, 5.5976884e-2f, 9.7829126e-3f},
      {6.9314720e-1f, 2.4022648e-1f, 5.5503325e-2f, 9.6184374e-3f, 1.3398874e-3f, 1.5353362e-4f},
      {6.9304484e-1f, 2.4128030e-1f, 5.2242272e-2f, 1.3426811e-2f},
      {6.9314704e-1f, 2.4022931e-1f, 5.5485281e-2f, 9.6754516e-3f, 1.2467846e-3f, 2.1612915e-4f}};
  constexpr int kWhich = 2 * V::kByFloor + (kDegree == 6);
  typename V::Split s[N];
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) s[v] = V::split(x[v]);
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) x[v] = V::set1(kTerms[kWhich][kDegree - 1]);
#pragma GCC unroll 8
  for (int i = kDegree - 2; i >= 0; --i)
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) x[v] = V::fma(x[v], s[v].fraction, V::set1(kTerms[kWhich][i]));
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) x[v] = V::fma(x[v], s[v].fraction, V::set1(1.0f));
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) x[v] = V::times_power(x[v], s[v].power);
}

// Phi(-|u|), the tail of the normal distribution, and exp(-u^2/2): erfc by Abramowitz & Stegun 7.1.26,
// |error| <= 8e-8 in Phi.
template <class V, int kDegree>
inline void normal_tail(typename V::Reg u, typename V::Reg* tail, typename V::Reg* gauss) {
  using Reg = typename V::Reg;
  const Reg t = V::div(V::set1(1.0f), V::fma(V::abs(u), V::set1(0.3275911f * 0.70710678f), V::set1(1.0f)));
  const Reg exponent =
      V::max(V::mul(V::mul(u, V::set1(-0.72134752f)), u), V::set1(-200.0f));  // -u^2/2 log2(e)
  const Reg e = exp2<V, kDegree>(exponent);
  Reg p = V::fma(V::set1(0.5f * 1.061405429f), t, V::set1(0.5f * -1.453152027f));
  p = V::fma(p, t, V::set1(0.5f * 1.421413741f));
  p = V::fma(p, t, V::set1(0.5f * -0.284496736f));
  p = V::fma(p, t, V::set1(0.5f * 0.254829592f));
  *tail = V::mul(V::mul(p, t), e);
  *gauss = e;
}

// The same for GELU's approximation, Phi(u) = (1 + tanh z) / 2 with z = sqrt(2 / pi) (u + 0.044715 u^3): the
// tail is e / (1 + e) with e = exp(-2|z|); its slope, 2 z' tail (1 - tail), is given times sqrt(2 pi).
template <class V, int kDegree>
inline void tanh_tail(typename V::Reg u, typename V::Reg* tail, typename V::Reg* gauss) {
  using Reg = typename V::Reg;
  const Reg square = V::mul(u, u);
  const Reg e = exp2<V, kDegree>(V::max(
      V::mul(V::mul(V::abs(u), V::set1(-2.3022082f)), V::fma(square, V::set1(0.044715f), V::set1(1.0f))),
      V::set1(-200.0f)));  // -2|z| log2(e)
  const Reg head = V::div(V::set1(1.0f), V::add(V::set1(1.0f), e));
  *tail = V::mul(e, head);
  *gauss =
      V::mul(V::mul(V::mul(V::set1(4.0f), *tail), head), V::fma(square, V::set1(0.134145f), V::set1(1.0f)));
}

// The same for the logistic distribution, whose u F(u) is SiLU: the tail is e / (1 + e) with e = exp(-|u|).
template <class V, int kDegree>
inline void logistic_tail(typename V::Reg u, typename V::Reg* tail, typename V::Reg* gauss) {
  using Reg = typename V::Reg;
  const Reg e = exp2<V, kDegree>(V::max(V::mul(V::abs(u), V::set1(-1.44269504f)), V::set1(-200.0f)));
  const Reg head = V::div(V::set1(1.0f), V::add(V::set1(1.0f), e));
  *tail = V::mul(e, head);
  *gauss = V::mul(V::mul(V::set1(2.5066283f), *tail), head);
}

// exp(-2|u|); NaN stays NaN, since max returns its second operand for NaN.
template <class V, int kDegree>
inline typename V::Reg tanh_exp(typename V::Reg u) {
  return exp2<V, kDegree>(V::max(V::set1(-200.0f), V::mul(V::abs(u), V::set1(-2.88539008f))));
}

// (1 - e) / (1 + e) with u's sign; below 1/4, where 1 - e cancels, its series, within 1e-8 of tanh(u).
template <class V, int kDegree>
inline typename V::Reg tanh_of(typename V::Reg u) {
  using Reg = typename V::Reg;
  const Reg e = tanh_exp<V, kDegree>(u), one = V::set1(1.0f);
  const Reg far = V::div(V::sub(one, e), V::add(one, e));
  const Reg square = V::mul(u, u);
  Reg p = V::fma(V::set1(62.0f / 2835), square, V::set1(-17.0f / 315));
  p = V::fma(p, square, V::set1(2.0f / 15));
  p = V::fma(p, square, V::set1(-1.0f / 3));
  p = V::fma(V::mul(p, square), u, u);
  return V::select_negative(V::sub(V::abs(u), V::set1(0.25f)), p,
                            V::select_negative(u, V::sub(V::zero(), far), far));
}

template <class V, Activation kF, int kDegree>
inline void tail_of(typename V::Reg u, typename V::Reg* tail, typename V::Reg* gauss) {
  if constexpr (kF == Activation::gelu)
    normal_tail<V, kDegree>(u, tail, gauss);
  else if constexpr (kF == Activation::gelu_tanh)
    tanh_tail<V, kDegree>(u, tail, gauss);
  else
    logistic_tail<V, kDegree>(u, tail, gauss);
}

template <class V, Activation kF, int kDegree>
inline typename V::Reg activation_of(typename V::Reg u) {
  if constexpr (kF == Activation::relu) {
    return V::max(V::zero(), u);  // operand order keeps NaN
  } else if constexpr (kF == Activation::tanh) {
    return tanh_of<V, kDegree>(u);
  } else {  // u F(u) = max(u, 0) - |u| F(-|u|)
    typename V::Reg tail, gauss;
    tail_of<V, kF, kDegree>(u, &tail, &gauss);
    return V::sub(V::max(u, V::zero()), V::mul(V::abs(u), tail));
  }
}

template <class V, Activation kF, int kDegree>
inline typename V::Reg slope_of(typename V::Reg u) {
  using Reg = typename V::Reg;
  const Reg one = V::set1(1.0f);
  if constexpr (kF == Activation::relu) {
    return V::select_negative(V::sub(V::zero(), u), one, V::zero());
  } else if constexpr (kF == Activation::tanh) {
    const Reg e = tanh_exp<V, kDegree>(u), head = V::div(one, V::add(one, e));
    return V::mul(V::mul(V::set1(4.0f), V::mul(e, head)), head);  // 1 - tanh(u)^2
  } else {
    Reg tail, gauss;
    tail_of<V, kF, kDegree>(u, &tail, &gauss);
    const Reg cdf = V::select_negative(u, tail, V::sub(one, tail));
    return V::fma(V::mul(u, V::set1(0.39894228f)), gauss, cdf);
  }
}

// SiLU and its slope by one exponential: u F(u), and F(u) + u F'(u)
template <class V, int kDegree>
inline void silu_of(typename V::Reg u, typename V::Reg* silu, typename V::Reg* slope) {
  typename V::Reg tail, gauss;
  logistic_tail<V, kDegree>(u, &tail, &gauss);
  const typename V::Reg cdf = V::select_negative(u, tail, V::sub(V::set1(1.0f), tail));
  *silu = V::mul(u, cdf);
  *slope = V::fma(V::mul(u, V::set1(0.39894228f)), gauss, cdf);
}

// Activations and their slopes, with constants kept in registers between vectors
template <class V, Activation kF, int kDegree>
struct ActivationOf {
  typename V::Reg operator()(typename V::Reg u) const { return activation_of<V, kF, kDegree>(u); }
};
template <class V, Activation kF, int kDegree>
struct SlopeOf {
  typename V::Reg operator()(typename V::Reg u) const { return slope_of<V, kF, kDegree>(u); }
};

// A function of a >= 0 by its table (gelu_tables.h)
template <class V, int kDegree>
struct BySegments {
  using Reg = typename V::Reg;
  static constexpr int kTerms = kDegree + 1;
  Reg coefficients[kTerms][2];

  explicit BySegments(const SegmentTable<kDegree>& table) {
    static_assert(kSegments == 2 * V::kWidth);
    for (int i = 0; i < kTerms; ++i)
      for (int half = 0; half < 2; ++half)
        coefficients[i][half] = V::load(table.coefficients[i] + half * V::kWidth);
  }
  Reg operator()(Reg a) const {
    const Reg last = V::set1(kSegmentSpacing * (kSegments - 1));
    const Reg within = V::min(last, a);                        // operand order keeps NaN
    const Reg magic = V::set1(12582912.0f * kSegmentSpacing);  // adding it rounds to a multiple
    const Reg shifted = V::add(within, magic);                 // whose index is in the low bits
    const Reg x = V::sub(within, V::sub(shifted, magic));
    Reg sum = V::look_up(coefficients[kTerms - 1], shifted);
#pragma GCC unroll 8
    for (int i = kTerms - 2; i >= 0; --i) sum = V::fma(sum, x, V::look_up(coefficients[i], shifted));
    return sum;
  }
};

// Table degree where exp2 would use kDegree
constexpr int table_degree(int degree) {
  return degree == 4 ? kCoarseDegree : kFineDegree;
}

// GELU by table: fewer operations, no division
template <class V, int kDegree>
requires V::kLooksUp struct ActivationOf<V, Activation::gelu, kDegree> {
  using Reg = typename V::Reg;
  const BySegments<V, table_degree(kDegree)> tail{normal_tail_table<table_degree(kDegree)>()};
  Reg operator()(Reg u) const {
    const Reg a = V::abs(u);
    return V::sub(V::max(u, V::zero()), V::mul(a, tail(a)));
  }
};
template <class V, int kDegree>
requires V::kLooksUp struct SlopeOf<V, Activation::gelu, kDegree> {
  using Reg = typename V::Reg;
  const BySegments<V, table_degree(kDegree)> below{gelu_slope_table<table_degree(kDegree)>()};
  Reg operator()(Reg u) const {
    const Reg s = below(V::abs(u));
    return V::select_negative(u, s, V::sub(V::set1(1.0f), s));
  }
};

// A 32-bit lane holds kPack consecutive elements along the summed dimension: acc += a * b over the pack.
template <class V>
struct DotF32 {
  using Element = float;
  static constexpr int kPack = 1;
  static constexpr int kSteps = 1;
  using Operand = typename V::Reg;
  static Operand load(const void* p, int /*step*/) { return V::load(p); }
  static Operand broadcast(const void* p, int /*step*/) {
    float x;
    std::memcpy(&x, p, sizeof(x));
    return V::set1(x);
  }
  static typename V::Reg mac(Operand a, Operand b, typename V::Reg acc) { return V::fma(a, b, acc); }
};

// Operands were widened from f16 or rounded to tf32 when packed: products are f32.
template <class V>
struct DotF16Widened : DotF32<V> {
  using Element = f16;
};
struct Tf32 {
  float value;
};
template <class V>
struct DotTf32Emulated : DotF32<V> {
  using Element = Tf32;
};

// bf16 products without the instruction: even elements, then odd ones, widened exactly to f32.
template <class V>
struct DotBf16Widened {
  using Element = bf16;
  static constexpr int kPack = 2;
  static constexpr int kSteps = 2;
  using Operand = typename V::Reg;
  static Operand load(const void* p, int step) {
    return step == 0 ? V::low_half(V::load(p)) : V::high_half(V::load(p));
  }
  static Operand broadcast(const void* p, int step) {
    uint32_t x;
    std::memcpy(&x, p, sizeof(x));
    return V::set1(std::bit_cast<float>(step == 0 ? x << 16 : x & 0xffff0000u));
  }
  static typename V::Reg mac(Operand a, Operand b, typename V::Reg acc) { return V::fma(a, b, acc); }
};
