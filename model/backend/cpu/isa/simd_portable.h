// Four floats with the compiler's vector extension, for any machine; interface described in simd_avx512.h.

struct Portable {
  typedef float Reg __attribute__((vector_size(16)));
  typedef int32_t Int __attribute__((vector_size(16)));
  static constexpr int kWidth = 4;
  static constexpr bool kLooksUp = false;
  static constexpr int kTileVectors = 2;
  static constexpr int tile_rows(int vectors) { return vectors == 2 ? 4 : 8; }

  static Int bits(Reg a) { return std::bit_cast<Int>(a); }
  static Reg floats(Int a) { return std::bit_cast<Reg>(a); }
  static Reg zero() { return Reg{0, 0, 0, 0}; }
  static Reg set1(float x) { return Reg{x, x, x, x}; }
  static Reg load(const void* p) { return load_n(p, kWidth); }
  static Reg load_n(const void* p, int64_t n) {
    Reg r = zero();
    std::memcpy(&r, p, n * sizeof(float));
    return r;
  }
  static void store(void* p, Reg x) { std::memcpy(p, &x, sizeof(x)); }
  static void store_n(void* p, Reg x, int64_t n) { std::memcpy(p, &x, n * sizeof(float)); }

  static Reg add(Reg a, Reg b) { return a + b; }
  static Reg sub(Reg a, Reg b) { return a - b; }
  static Reg mul(Reg a, Reg b) { return a * b; }
  static Reg div(Reg a, Reg b) { return a / b; }
  static Reg fma(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg max(Reg a, Reg b) { return a > b ? a : b; }
  static Reg min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg sqrt(Reg a) {
    for (int i = 0; i < kWidth; ++i) a[i] = std::sqrt(a[i]);
    return a;
  }
  static Reg abs(Reg a) { return floats(bits(a) & 0x7fffffff); }
  static Reg round(Reg a) {  // beyond 2^23 a float is whole
    const Reg magic = set1(12582912.0f);
    return abs(a) < set1(4194304.0f) ? (a + magic) - magic : a;
  }
  static Reg ldexp_or_zero(Reg a, Reg n, float least) {  // a 2^n, n whole and <= 126; 0 if n < least
    const Int shifted = __builtin_convertvector(max(n, set1(least)), Int) + 127;
    return n < set1(least) ? zero() : a * floats(shifted << 23);
  }
  // x = n + fraction with |fraction| <= 1/2; a 2^n, 0 where n < -126; x <= 126
  static constexpr bool kByFloor = false;
  struct Split {
    Reg fraction, power;
  };
  static Split split(Reg x) {
    const Reg kept = x < set1(-127.0f) ? set1(-127.0f) : x;  // NaN stays NaN
    const Reg shifted = kept + set1(12582912.0f + 127.0f);   // leaves n + 127 in the low bits
    return {kept - (shifted - set1(12582912.0f + 127.0f)), floats(bits(shifted) << 23)};
  }
  static Reg times_power(Reg a, Reg power) { return a * power; }
  static Reg select_negative(Reg x, Reg if_negative, Reg otherwise) {
    return bits(x) < 0 ? if_negative : otherwise;
  }
  static bool any_above(Reg a, Reg b) { return a[0] > b[0] || a[1] > b[1] || a[2] > b[2] || a[3] > b[3]; }
  static float sum(Reg a) { return (a[0] + a[1]) + (a[2] + a[3]); }

  static Reg low_half(Reg a) { return floats(bits(a) << 16); }
  static Reg high_half(Reg a) { return floats(bits(a) & -65536); }
  static Int round_bf16(Reg a) {  // in the low half of each 32-bit lane
    typedef uint32_t Unsigned __attribute__((vector_size(16)));
    const Unsigned u = std::bit_cast<Unsigned>(a);
    const Unsigned rounded = u + 0x7fffu + ((u >> 16) & 1u);
    const Unsigned kept = (u & 0x7fffffffu) > 0x7f800000u ? (u | 0x400000u) : rounded;
    return std::bit_cast<Int>(kept >> 16);
  }
  static Reg load_bf16(const void* p) { return load_bf16_n(p, kWidth); }
  static Reg load_bf16_n(const void* p, int64_t n) {
    uint16_t h[4] = {};
    std::memcpy(h, p, n * sizeof(uint16_t));
    return low_half(floats(Int{h[0], h[1], h[2], h[3]}));
  }
  static void store_bf16(void* p, Reg a) { store_bf16_n(p, a, kWidth); }
  static void store_bf16_n(void* p, Reg a, int64_t n) { store_rounded(p, round_bf16(a), n); }
  static void store_rounded(void* p, Int r, int64_t n) {
    uint16_t h[4];
    for (int i = 0; i < kWidth; ++i) h[i] = static_cast<uint16_t>(r[i]);
    std::memcpy(p, h, n * sizeof(uint16_t));
  }
  static Reg load_f16(const void* p) { return load_f16_n(p, kWidth); }
  static Reg load_f16_n(const void* p, int64_t n) {
    f16 h[4] = {};
    std::memcpy(h, p, n * sizeof(f16));
    return Reg{to_float(h[0]), to_float(h[1]), to_float(h[2]), to_float(h[3])};
  }
  static void store_f16(void* p, Reg a) { store_f16_n(p, a, kWidth); }
  static void store_f16_n(void* p, Reg a, int64_t n) {
    const f16 h[4] = {to_f16(a[0]), to_f16(a[1]), to_f16(a[2]), to_f16(a[3])};
    std::memcpy(p, h, n * sizeof(f16));
  }
  static Reg round_f16(Reg a) {
    for (int i = 0; i < kWidth; ++i) a[i] = to_float(to_f16(a[i]));
    return a;
  }
  static Reg round_tf32(Reg a) {
    for (int i = 0; i < kWidth; ++i) a[i] = isobar::round_tf32(a[i]);
    return a;
  }
  struct Rounded {
    Int even, odd;
  };
  static Rounded round_two(Reg even, Reg odd) { return {round_bf16(even), round_bf16(odd)}; }
  static void store_even(void* p, Rounded r) { store_rounded(p, r.even, kWidth); }
  static void store_odd(void* p, Rounded r) { store_rounded(p, r.odd, kWidth); }
  static void store_pairs(void* p, Rounded r) { store(p, floats(r.even | (r.odd << 16))); }
  static void store_as_pairs(void* p, Reg even, Reg odd) { store_pairs(p, round_two(even, odd)); }
};
