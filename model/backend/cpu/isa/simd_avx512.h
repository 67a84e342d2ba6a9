// Sixteen floats in an AVX-512 register. Included by isa_avx512*.cpp only, inside their target region and an
// unnamed namespace, so that the linker never merges AVX-512 code with another file's.
//
// Every simd_*.h has the same struct: kWidth, the kernels' arithmetic, loads and stores of f32 and bf16,
// whole or of the first n lanes (the others read as 0), and the register tile's shape for matmul_tile.h.

template <bool kNativeBf16>
struct Avx512 {
  using Reg = __m512;
  static constexpr int kWidth = 16;
  static constexpr bool kLooksUp = true;  // look_up()
  static constexpr int kTileVectors = 4;  // 6 x 4 accumulators + 4 + 1 of the 32 registers
  static constexpr int tile_rows(int vectors) { return vectors == 4 ? 6 : 8; }

  static __mmask16 first(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static Reg zero() { return _mm512_setzero_ps(); }
  static Reg set1(float x) { return _mm512_set1_ps(x); }
  static Reg load(const void* p) { return _mm512_loadu_ps(p); }
  static Reg load_n(const void* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static void store(void* p, Reg x) { _mm512_storeu_ps(p, x); }
  static void store_n(void* p, Reg x, int64_t n) { _mm512_mask_storeu_ps(p, first(n), x); }

  static Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static Reg sqrt(Reg a) { return _mm512_sqrt_ps(a); }
  static Reg abs(Reg a) { return _mm512_abs_ps(a); }
  static Reg round(Reg a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Reg ldexp_or_zero(Reg a, Reg n, float least) {  // a 2^n, n whole; 0 if n < least; keeps NaN
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(n, _mm512_set1_ps(least), _CMP_NLT_UQ), a, n);
  }
  // x = n + fraction with 0 <= fraction < 1; a 2^n, flushed to 0 if denormal, infinite beyond
  static constexpr bool kByFloor = true;
  struct Split {
    Reg fraction, power;
  };
  static Split split(Reg x) { return {_mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC), x}; }
  static Reg times_power(Reg a, Reg power) { return _mm512_scalef_ps(a, power); }
  static Reg select_negative(Reg x, Reg if_negative, Reg otherwise) {
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), otherwise, if_negative);
  }
  // table[0 … 31] by the low five bits of each lane
  static Reg look_up(const Reg (&table)[2], Reg index) {
    return _mm512_permutex2var_ps(table[0], _mm512_castps_si512(index), table[1]);
  }
  static bool any_above(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
  static float sum(Reg a) { return _mm512_reduce_add_ps(a); }

  // bf16 pairs in 32-bit lanes: the low half is the even element
  static Reg low_half(Reg a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 16)); }
  static Reg high_half(Reg a) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(-65536)));
  }
  static __m256i round_bf16(Reg a) {
    if constexpr (kNativeBf16) {
      return (__m256i)_mm512_cvtneps_pbh(a);
    } else {
      const __m512i u = _mm512_castps_si512(a);
      const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
      __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
      const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
      r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), quiet);  // NaN stays NaN
      return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
    }
  }
  static Reg widen(__m256i h) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)); }
  static Reg load_bf16(const void* p) { return widen(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  static Reg load_bf16_n(const void* p, int64_t n) { return widen(_mm256_maskz_loadu_epi16(first(n), p)); }
  static void store_bf16(void* p, Reg a) { _mm256_storeu_si256(static_cast<__m256i*>(p), round_bf16(a)); }
  static void store_bf16_n(void* p, Reg a, int64_t n) {
    _mm256_mask_storeu_epi16(p, first(n), round_bf16(a));
  }
  static Reg load_f16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  static Reg load_f16_n(const void* p, int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
  }
  static __m256i halves(Reg a) { return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static void store_f16(void* p, Reg a) { _mm256_storeu_si256(static_cast<__m256i*>(p), halves(a)); }
  static void store_f16_n(void* p, Reg a, int64_t n) { _mm256_mask_storeu_epi16(p, first(n), halves(a)); }
  static Reg round_f16(Reg a) { return _mm512_cvtph_ps(halves(a)); }
  static Reg round_tf32(Reg a) {
    const __m512i u = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 13), _mm512_set1_epi32(1));
    const __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0xfff)), odd);
    const __m512 kept = _mm512_castsi512_ps(_mm512_and_si512(r, _mm512_set1_epi32(~0x1fff)));
    return _mm512_mask_add_ps(kept, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a, a);  // NaN stays NaN
  }
  // Two registers rounded to bf16, to be stored separately or as pairs
  struct Rounded {
    __m512i lanes;  // even's 16, then odd's
  };
  static Rounded round_two(Reg even, Reg odd) {
    if constexpr (kNativeBf16)
      return {(__m512i)_mm512_cvtne2ps_pbh(odd, even)};
    else
      return {_mm512_inserti64x4(_mm512_castsi256_si512(round_bf16(even)), round_bf16(odd), 1)};
  }
  static void store_even(void* p, Rounded r) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_castsi512_si256(r.lanes));
  }
  static void store_odd(void* p, Rounded r) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_extracti64x4_epi64(r.lanes, 1));
  }
  static void store_pairs(void* p, Rounded r) {  // 32-bit lane i is (even[i], odd[i])
    const __m512i order = _mm512_add_epi32(      // words 0, 16, 1, 17, …
        _mm512_set1_epi32(0x00100000),
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           _mm512_set1_epi32(0x00010001)));
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, r.lanes));
  }
  // As pairs, rounded to nearest, ties away from zero: fewer operations than conversion and permutation. NaN
  // in bf16 operands stays NaN.
  static void store_as_pairs(void* p, Reg even, Reg odd) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(even), half), 16);
    const __m512i high = _mm512_add_epi32(_mm512_castps_si512(odd), half);
    _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaau, low, high));
  }
};
