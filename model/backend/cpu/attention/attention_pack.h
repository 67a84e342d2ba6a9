// Packing for attention: from strided rows (E: their type) to the lane layouts of attention_layout.h.
// Included like simd_avx512.h: inside an unnamed namespace, after simd_math.h and transpose.h.

template <class E>
inline const char* element(const void* base, int64_t index) {
  return static_cast<const char*>(base) + index * static_cast<int64_t>(sizeof(E));
}

template <class E>
constexpr int64_t kPackOf = std::is_same_v<E, bf16> ? 2 : 1;  // elements in a lane

// f16 is widened and tf32 rounded when packed; float and bf16 are copied.
template <class E>
constexpr bool kConverts = std::is_same_v<E, f16> || std::is_same_v<E, Tf32>;

template <class V, class E>
inline typename V::Reg load_element_n(const void* p, int64_t n) {
  if constexpr (std::is_same_v<E, bf16>)
    return n == V::kWidth ? V::load_bf16(p) : V::load_bf16_n(p, n);
  else if constexpr (std::is_same_v<E, f16>)
    return n == V::kWidth ? V::load_f16(p) : V::load_f16_n(p, n);
  else
    return n == V::kWidth ? V::load(p) : V::load_n(p, n);
}

template <class V, class E>
inline void store_element_n(void* p, typename V::Reg x, int64_t n) {
  if constexpr (std::is_same_v<E, bf16>)
    n == V::kWidth ? V::store_bf16(p, x) : V::store_bf16_n(p, x, n);
  else if constexpr (std::is_same_v<E, f16>)
    n == V::kWidth ? V::store_f16(p, x) : V::store_f16_n(p, x, n);
  else
    n == V::kWidth ? V::store(p, x) : V::store_n(p, x, n);
}

// Rounds a register of f32 as the operand's type would
template <class V, class E>
inline typename V::Reg as_operand(typename V::Reg x) {
  if constexpr (std::is_same_v<E, f16>)
    return V::round_f16(x);
  else if constexpr (std::is_same_v<E, Tf32>)
    return V::round_tf32(x);
  else
    return x;
}

template <class E>
inline float as_lane(const char* p) {
  E x;
  std::memcpy(&x, p, sizeof(x));
  if constexpr (std::is_same_v<E, Tf32>)
    return isobar::round_tf32(x.value);
  else
    return to_float(x);
}

template <class V, class E>
inline void convert_row(const char* src, int64_t d, float* dst) {
  for_vectors<V>(
      d, [&](int64_t j, int64_t n) __attribute__((always_inline)) {
        V::store_n(dst + j, as_operand<V, E>(load_element_n<V, E>(src + j * sizeof(E), n)), n);
      });
}

// rows [n][d_lanes]; an odd d is padded with a zero
template <class V, class E>
inline void pack_rows(const char* src, int64_t ld, int64_t n, int64_t d, float* dst) {
  constexpr int64_t kPack = kPackOf<E>, kSize = sizeof(E);
  const int64_t lanes = (d + kPack - 1) / kPack;
  const int64_t bytes = d * kSize;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kConverts<E>) {
      convert_row<V, E>(src + i * ld * kSize, d, dst + i * lanes);
    } else {
      char* row = reinterpret_cast<char*>(dst + i * lanes);
      std::memcpy(row, src + i * ld * kSize, bytes);
      if (bytes < lanes * 4) std::memset(row + bytes, 0, lanes * 4 - bytes);
    }
  }
}

// columns [d_lanes][64] of n <= 64 rows, padded with zeros
template <class E>
inline void pack_columns(const char* src, int64_t ld, int64_t n, int64_t d, float* dst) {
  constexpr int64_t kPack = kPackOf<E>, kSize = sizeof(E);
  const int64_t whole = d / kPack, lanes = (d + kPack - 1) / kPack, row_bytes = ld * kSize;
  const int64_t n4 = kConverts<E> ? 0 : n / 4 * 4, whole4 = whole / 4 * 4;
  for (int64_t i = 0; i < n4; i += 4)
    for (int64_t p = 0; p < whole4; p += 4) {
      Four x[4];
      for (int64_t r = 0; r < 4; ++r) x[r] = load_four(src + (i + r) * row_bytes + p * 4);
      transpose_four(x);
      for (int64_t r = 0; r < 4; ++r) std::memcpy(dst + (p + r) * kQueryTile + i, &x[r], sizeof(Four));
    }
  for (int64_t i = 0; i < n; ++i) {  // remainder of the 4 x 4 blocks
    const char* row = src + i * row_bytes;
    for (int64_t p = i < n4 ? whole4 : 0; p < whole; ++p)
      if constexpr (kConverts<E>)
        dst[p * kQueryTile + i] = as_lane<E>(row + p * kSize);
      else
        std::memcpy(dst + p * kQueryTile + i, row + p * 4, 4);
    if (whole < lanes) {  // an odd d: last element and a zero
      uint32_t last = 0;
      std::memcpy(&last, row + whole * 4, 2);
      std::memcpy(dst + whole * kQueryTile + i, &last, 4);
    }
  }
  if (n < kQueryTile)
    for (int64_t p = 0; p < lanes; ++p) std::memset(dst + p * kQueryTile + n, 0, (kQueryTile - n) * 4);
}

// pairs [ceil(n / kPack)][width] of n rows; columns d … width - 1 are zeros
template <class V, class E>
inline void pack_pairs(const char* src, int64_t ld, int64_t n, int64_t d, int64_t width, float* dst) {
  constexpr int64_t kPack = kPackOf<E>, kSize = sizeof(E);
  for (int64_t i = 0; i < n; i += kPack) {
    const char* even = src + i * ld * kSize;
    float* row = dst + i / kPack * width;
    if constexpr (kConverts<E>) {
      convert_row<V, E>(even, d, row);
    } else if constexpr (kPack == 1) {
      std::memcpy(row, even, d * 4);
    } else {
      static constexpr char kZeros[8] = {};  // the row after an odd n
      const char* odd = i + 1 < n ? even + ld * 2 : kZeros;
      const int64_t odd_step = i + 1 < n ? 8 : 0;
      int64_t j = 0;
      for (; j + 4 <= d; j += 4, odd += odd_step) {
        typedef uint16_t Halves __attribute__((vector_size(8)));
        Halves lo, hi;
        std::memcpy(&lo, even + j * 2, sizeof(lo));
        std::memcpy(&hi, odd, sizeof(hi));
        const auto low = __builtin_shufflevector(lo, hi, 0, 4, 1, 5, 2, 6, 3, 7);
        std::memcpy(row + j, &low, sizeof(low));
      }
      for (; j < d; ++j) {
        uint16_t pair[2] = {};
        std::memcpy(&pair[0], even + j * 2, 2);
        if (i + 1 < n) std::memcpy(&pair[1], even + ld * 2 + j * 2, 2);
        std::memcpy(row + j, pair, 4);
      }
    }
    if (d < width) std::memset(row + d, 0, (width - d) * 4);
  }
}

// Stores four floats at p, rounded to E
template <class E>
inline void store_four(char* p, Four x) {
  if constexpr (std::is_same_v<E, f16>) {
    const f16 half[4] = {to_f16(x[0]), to_f16(x[1]), to_f16(x[2]), to_f16(x[3])};
    std::memcpy(p, half, sizeof(half));
  } else if constexpr (kPackOf<E> == 1) {
    std::memcpy(p, &x, sizeof(x));
  } else {
    typedef uint32_t FourBits __attribute__((vector_size(16)));
    typedef uint16_t FourHalves __attribute__((vector_size(8)));
    const FourBits u = std::bit_cast<FourBits>(x);
    const FourBits rounded = u + 0x7fffu + ((u >> 16) & 1u);
    const FourBits kept = (u & 0x7fffffffu) > 0x7f800000u ? (u | 0x400000u) : rounded;  // NaN stays NaN
    const FourHalves half = __builtin_convertvector(kept >> 16, FourHalves);
    std::memcpy(p, &half, sizeof(half));
  }
}

// Rows [n][d] with stride ld, from a transposed f32 tile [d][64], each row i times scale[i]
template <class V, class E>
inline void unpack_transposed(const float* src, const float* scale, int64_t n, int64_t d, char* dst,
                              int64_t ld) {
  constexpr int64_t kSize = sizeof(E);
  const int64_t n4 = n / 4 * 4, d4 = d / 4 * 4;
  for (int64_t i = 0; i < n4; i += 4) {
    const Four factor = load_four(scale + i);
    for (int64_t j = 0; j < d4; j += 4) {
      Four x[4];
      for (int64_t r = 0; r < 4; ++r) x[r] = load_four(src + (j + r) * kQueryTile + i) * factor;
      transpose_four(x);
      for (int64_t r = 0; r < 4; ++r) store_four<E>(dst + ((i + r) * ld + j) * kSize, x[r]);
    }
  }
  for (int64_t i = 0; i < n; ++i)  // remainder of the 4 x 4 blocks
    for (int64_t j = i < n4 ? d4 : 0; j < d; ++j) {
      const float x = src[j * kQueryTile + i] * scale[i];
      char* p = dst + (i * ld + j) * kSize;
      if constexpr (std::is_same_v<E, bf16>) {
        const bf16 h = to_bf16(x);
        std::memcpy(p, &h, 2);
      } else if constexpr (std::is_same_v<E, f16>) {
        const f16 h = to_f16(x);
        std::memcpy(p, &h, 2);
      } else {
        std::memcpy(p, &x, 4);
      }
    }
}

// Rows [n][d] with stride ld, from f32 rows [n][width] times scale
template <class V, class E>
inline void unpack_rows(const float* src, int64_t width, float scale, int64_t n, int64_t d, char* dst,
                        int64_t ld) {
  const typename V::Reg s = V::set1(scale);
  for (int64_t i = 0; i < n; ++i) {
    char* row = dst + i * ld * static_cast<int64_t>(sizeof(E));
    for_vectors<V>(
        d, [&](int64_t j, int64_t n) __attribute__((always_inline)) {
          store_element_n<V, E>(row + j * sizeof(E), V::mul(V::load(src + i * width + j), s), n);
        });
  }
}
