// Transposes matrices of 32-bit lanes, 16 x 16 where registers are wide enough, else 4 x 4. Included like
// simd_avx512.h: inside an unnamed namespace.

// Four lanes on any instruction set: transposing moves data only.
typedef float Four __attribute__((vector_size(16)));

inline Four load_four(const void* p) {
  Four x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

inline void transpose_four(Four x[4]) {
  const Four low01 = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
  const Four low23 = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
  const Four high23 = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
  x[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  x[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  x[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  x[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

// y[cols, rows] = x[rows, cols] transposed; ld: elements between rows
inline void transpose_by_fours(int64_t rows, int64_t cols, const float* x, int64_t ld_x, float* y,
                               int64_t ld_y) {
  const int64_t rows4 = rows / 4 * 4, cols4 = cols / 4 * 4;
  for (int64_t i = 0; i < rows4; i += 4)
    for (int64_t j = 0; j < cols4; j += 4) {
      Four block[4];
      for (int64_t r = 0; r < 4; ++r) block[r] = load_four(x + (i + r) * ld_x + j);
      transpose_four(block);
      for (int64_t r = 0; r < 4; ++r) std::memcpy(y + (j + r) * ld_y + i, &block[r], sizeof(Four));
    }
  for (int64_t i = 0; i < rows; ++i)  // remainder of the blocks
    for (int64_t j = i < rows4 ? cols4 : 0; j < cols; ++j) y[j * ld_y + i] = x[i * ld_x + j];
}

typedef float Sixteen __attribute__((vector_size(64)));

// Interleaves the rows of both halves four times, which moves element (i, j) to (j, i).
inline void transpose_block(const float* x, int64_t ld_x, float* y, int64_t ld_y) {
  Sixteen a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) std::memcpy(&a[i], x + i * ld_x, sizeof(Sixteen));
  const auto between = [](const Sixteen* from, Sixteen* to) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      to[2 * i] = __builtin_shufflevector(from[i], from[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                          22, 7, 23);
      to[2 * i + 1] = __builtin_shufflevector(from[i], from[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                              29, 14, 30, 15, 31);
    }
  };
  between(a, b), between(b, a), between(a, b), between(b, a);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) std::memcpy(y + i * ld_y, &a[i], sizeof(Sixteen));
}

template <class V>
void transpose(int64_t rows, int64_t cols, const float* x, int64_t ld_x, float* y, int64_t ld_y) {
  const int64_t block = V::kWidth == 16 ? 16 : 0, rows16 = block * (rows / 16), cols16 = block * (cols / 16);
  if constexpr (V::kWidth == 16)
    for (int64_t i = 0; i < rows16; i += 16)
      for (int64_t j = 0; j < cols16; j += 16)
        transpose_block(x + i * ld_x + j, ld_x, y + j * ld_y + i, ld_y);
  transpose_by_fours(rows16, cols - cols16, x + cols16, ld_x, y + cols16 * ld_y, ld_y);
  transpose_by_fours(rows - rows16, cols, x + rows16 * ld_x, ld_x, y + rows16, ld_y);
}
