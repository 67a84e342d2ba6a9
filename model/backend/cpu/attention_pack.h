// Packing for attention: from the caller's strided rows (f32 or bf16) to the lane layouts of
// attention_layout.h. Included like simd_avx512.h: inside an unnamed namespace, after simd_math.h.

template <int kPack>
inline const char* element(const void* base, int64_t index) {
  return static_cast<const char*>(base) + index * (4 / kPack);
}

// rows [n][d_lanes]; an odd d is padded with a zero
template <int kPack>
inline void pack_rows(const char* src, int64_t ld, int64_t n, int64_t d, float* dst) {
  const int64_t lanes = (d + kPack - 1) / kPack;
  const int64_t bytes = d * (4 / kPack);
  for (int64_t i = 0; i < n; ++i) {
    char* row = reinterpret_cast<char*>(dst + i * lanes);
    std::memcpy(row, src + i * ld * (4 / kPack), bytes);
    if (bytes < lanes * 4) std::memset(row + bytes, 0, lanes * 4 - bytes);
  }
}

// columns [d_lanes][64] of n <= 64 rows; the missing rows are zeros
template <int kPack>
inline void pack_columns(const char* src, int64_t ld, int64_t n, int64_t d, float* dst) {
  const int64_t whole = d / kPack;
  for (int64_t i = 0; i < n; ++i) {
    const char* row = src + i * ld * (4 / kPack);
    for (int64_t p = 0; p < whole; ++p) std::memcpy(dst + p * kQueryTile + i, row + p * 4, 4);
    if (whole * kPack < d) {
      uint32_t last = 0;
      std::memcpy(&last, row + whole * 4, 2);
      std::memcpy(dst + whole * kQueryTile + i, &last, 4);
    }
  }
  const int64_t lanes = (d + kPack - 1) / kPack;
  if (n < kQueryTile)
    for (int64_t p = 0; p < lanes; ++p) std::memset(dst + p * kQueryTile + n, 0, (kQueryTile - n) * 4);
}

// pairs [ceil(n / kPack)][width] of n rows; columns d … width - 1 are zeros
template <int kPack>
inline void pack_pairs(const char* src, int64_t ld, int64_t n, int64_t d, int64_t width, float* dst) {
  for (int64_t i = 0; i < n; i += kPack) {
    const char* even = src + i * ld * (4 / kPack);
    float* row = dst + i / kPack * width;
    if constexpr (kPack == 1) {
      std::memcpy(row, even, d * 4);
    } else {
      static constexpr uint16_t kNone[1] = {0};
      const bool has_odd = i + 1 < n;
      const char* odd = has_odd ? even + ld * 2 : reinterpret_cast<const char*>(kNone);
      for (int64_t j = 0; j < d; ++j) {
        uint16_t lo, hi;
        std::memcpy(&lo, even + j * 2, 2);
        std::memcpy(&hi, has_odd ? odd + j * 2 : odd, 2);
        const uint32_t pair = lo | static_cast<uint32_t>(hi) << 16;
        std::memcpy(row + j, &pair, 4);
      }
    }
    if (d < width) std::memset(row + d, 0, (width - d) * 4);
  }
}

// rows of the caller, [n][d] with stride ld, from a transposed f32 tile [d][64], each row i times scale[i]
template <class V, int kPack>
inline void unpack_transposed(const float* src, const float* scale, int64_t n, int64_t d, char* dst,
                              int64_t ld) {
  for (int64_t i = 0; i < n; ++i) {
    char* row = dst + i * ld * (4 / kPack);
    for (int64_t j = 0; j < d; ++j) {
      const float x = src[j * kQueryTile + i] * scale[i];
      if constexpr (kPack == 1) {
        std::memcpy(row + j * 4, &x, 4);
      } else {
        const bf16 h = to_bf16(x);
        std::memcpy(row + j * 2, &h, 2);
      }
    }
  }
}

// rows of the caller, [n][d] with stride ld, from f32 rows [n][width] times scale
template <class V, int kPack>
inline void unpack_rows(const float* src, int64_t width, float scale, int64_t n, int64_t d, char* dst,
                        int64_t ld) {
  const typename V::Reg s = V::set1(scale);
  for (int64_t i = 0; i < n; ++i) {
    char* row = dst + i * ld * (4 / kPack);
    for (int64_t j = 0; j < d; j += V::kWidth) {
      const typename V::Reg x = V::mul(V::load(src + i * width + j), s);
      const int64_t left = std::min<int64_t>(V::kWidth, d - j);
      if constexpr (kPack == 1)
        V::store_n(row + j * 4, x, left);
      else
        V::store_bf16_n(row + j * 2, x, left);
    }
  }
}
