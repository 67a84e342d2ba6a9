// Eight floats in an AVX2 register (with FMA); interface described in simd_avx512.h.

struct Avx2 {
  using Reg = __m256;
  static constexpr int kWidth = 8;
  static constexpr bool kLooksUp = false;
  static constexpr int kTileVectors = 2;  // 6 x 2 accumulators + 2 + 1 of the 16 registers
  static constexpr int tile_rows(int vectors) { return vectors == 2 ? 6 : 8; }

  static __m256i first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg set1(float x) { return _mm256_set1_ps(x); }
  static Reg load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  static Reg load_n(const void* p, int64_t n) {
    return _mm256_maskload_ps(static_cast<const float*>(p), first(n));
  }
  static void store(void* p, Reg x) { _mm256_storeu_ps(static_cast<float*>(p), x); }
  static void store_n(void* p, Reg x, int64_t n) { _mm256_maskstore_ps(static_cast<float*>(p), first(n), x); }

  static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static Reg sqrt(Reg a) { return _mm256_sqrt_ps(a); }
  static Reg abs(Reg a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static Reg round(Reg a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Reg ldexp_or_zero(Reg a, Reg n, float least) {  // a 2^n, n whole and <= 126; 0 if n < least
    const __m256i bits =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    const Reg kept = _mm256_cmp_ps(n, _mm256_set1_ps(least), _CMP_NLT_UQ);
    return _mm256_mul_ps(a, _mm256_and_ps(_mm256_castsi256_ps(bits), kept));
  }
  // x = n + fraction with |fraction| <= 1/2; a 2^n, 0 where n < -126; x <= 126
  static constexpr bool kByFloor = false;
  struct Split {
    Reg fraction, power;
  };
  static Split split(Reg x) {
    const Reg magic = _mm256_set1_ps(12582912.0f + 127.0f);      // leaves n + 127 in the low bits
    const Reg kept = _mm256_max_ps(_mm256_set1_ps(-127.0f), x);  // operand order keeps NaN
    const Reg shifted = _mm256_add_ps(kept, magic);
    const __m256i power = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return {_mm256_sub_ps(kept, _mm256_sub_ps(shifted, magic)), _mm256_castsi256_ps(power)};
  }
  static Reg times_power(Reg a, Reg power) { return _mm256_mul_ps(a, power); }
  static Reg select_negative(Reg x, Reg if_negative, Reg otherwise) {
    return _mm256_blendv_ps(otherwise, if_negative, x);
  }
  static bool any_above(Reg a, Reg b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0; }
  static float sum(Reg a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
  }

  static Reg low_half(Reg a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 16)); }
  static Reg high_half(Reg a) {
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(-65536)));
  }
  static __m256i round_bf16(Reg a) {  // in the low half of each 32-bit lane
    const __m256i u = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    return _mm256_srli_epi32(_mm256_blendv_epi8(r, quiet, _mm256_castps_si256(nan)), 16);
  }
  static Reg load_bf16(const void* p) {
    const __m128i h = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
  }
  static Reg load_bf16_n(const void* p, int64_t n) {
    uint16_t lanes[8] = {};
    std::memcpy(lanes, p, n * sizeof(uint16_t));
    return load_bf16(lanes);
  }
  static void store_bf16(void* p, Reg a) { store_rounded(p, round_bf16(a)); }
  static void store_bf16_n(void* p, Reg a, int64_t n) {
    uint16_t lanes[8];
    store_bf16(lanes, a);
    std::memcpy(p, lanes, n * sizeof(uint16_t));
  }
  static Reg load_f16(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  static Reg load_f16_n(const void* p, int64_t n) {
    uint16_t lanes[8] = {};
    std::memcpy(lanes, p, n * sizeof(uint16_t));
    return load_f16(lanes);
  }
  static __m128i halves(Reg a) { return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static void store_f16(void* p, Reg a) { _mm_storeu_si128(static_cast<__m128i*>(p), halves(a)); }
  static void store_f16_n(void* p, Reg a, int64_t n) {
    uint16_t lanes[8];
    store_f16(lanes, a);
    std::memcpy(p, lanes, n * sizeof(uint16_t));
  }
  static Reg round_f16(Reg a) { return _mm256_cvtph_ps(halves(a)); }
  static Reg round_tf32(Reg a) {
    const __m256i u = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 13), _mm256_set1_epi32(1));
    const __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0xfff)), odd);
    const __m256 kept = _mm256_castsi256_ps(_mm256_and_si256(r, _mm256_set1_epi32(~0x1fff)));
    return _mm256_blendv_ps(kept, _mm256_add_ps(a, a), _mm256_cmp_ps(a, a, _CMP_UNORD_Q));  // NaN stays NaN
  }
  struct Rounded {
    __m256i even, odd;
  };
  static Rounded round_two(Reg even, Reg odd) { return {round_bf16(even), round_bf16(odd)}; }
  static void store_rounded(void* p, __m256i r) {
    const __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
    _mm_storeu_si128(static_cast<__m128i*>(p), h);
  }
  static void store_even(void* p, Rounded r) { store_rounded(p, r.even); }
  static void store_odd(void* p, Rounded r) { store_rounded(p, r.odd); }
  static void store_pairs(void* p, Rounded r) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_or_si256(r.even, _mm256_slli_epi32(r.odd, 16)));
  }
  static void store_as_pairs(void* p, Reg even, Reg odd) { store_pairs(p, round_two(even, odd)); }
};
