// AMX behind a small interface: eight tiles of 16 rows of 64 bytes, each row 16 f32 or 16 pairs of bf16.
// mac<c, a, b>(): C[16, 16] += A[16, 16 pairs] B[16 pairs, 16]. Tiles are named by number; between begin()
// and end() they are the calling thread's.
//
// PlainTiles computes the same bits on any CPU, slowly, for tests; the instructions are in isa_amx.cpp.
// Included like simd_avx512.h: inside an unnamed namespace.

struct PlainTiles {
  static void begin() {}
  static void end() {}
  template <int kTile>
  static void zero() {
    std::memset(&tile(kTile), 0, sizeof(Tile));
  }
  template <int kTile>
  static void load(const float* p, int64_t stride) {  // stride: 32-bit lanes between rows
    for (int64_t i = 0; i < 16; ++i) std::memcpy(tile(kTile).row[i], p + i * stride, 64);
  }
  template <int kTile>
  static void store(float* p, int64_t stride) {
    for (int64_t i = 0; i < 16; ++i) std::memcpy(p + i * stride, tile(kTile).row[i], 64);
  }
  // As the instruction does, even and odd elements are summed separately by fused multiply-adds, then added.
  template <int kC, int kA, int kB>
  static void mac() {
    Tile& c = tile(kC);
    for (int64_t m = 0; m < 16; ++m) {
      float even[16] = {}, odd[16] = {};
      for (int64_t k = 0; k < 16; ++k) {
        const uint32_t a = tile(kA).row[m][k];
        for (int64_t n = 0; n < 16; ++n) {
          const uint32_t b = tile(kB).row[k][n];
          even[n] = std::fma(low(a), low(b), even[n]);
          odd[n] = std::fma(high(a), high(b), odd[n]);
        }
      }
      for (int64_t n = 0; n < 16; ++n)
        c.row[m][n] = std::bit_cast<uint32_t>(std::bit_cast<float>(c.row[m][n]) + (even[n] + odd[n]));
    }
  }

 private:
  struct Tile {
    uint32_t row[16][16];
  };
  static Tile& tile(int i) {
    thread_local Tile tiles[8];
    return tiles[i];
  }
  static float low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
  static float high(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }
};

// C[m, n] (+)= A[m, depth] B[depth, n] over whole tiles: m, n and depth (pairs) multiples of 16. kM x kN
// tiles of C stay in registers 0 to 3, A uses 4 and 5, B 6 and 7. Three steps, since the tile unit is
// asynchronous and vector arithmetic can be interleaved.
template <class Tiles, int kM, int kN>
[[gnu::always_inline]] inline void tile_begin(const float* c, int64_t ldc, bool add) {
  static_assert(kM >= 1 && kM <= 2 && kN >= 1 && kN <= 2);
  if (add) {
    Tiles::template load<0>(c, ldc);
    if constexpr (kN == 2) Tiles::template load<1>(c + 16, ldc);
    if constexpr (kM == 2) Tiles::template load<2>(c + 16 * ldc, ldc);
    if constexpr (kM == 2 && kN == 2) Tiles::template load<3>(c + 16 * ldc + 16, ldc);
  } else {
    Tiles::template zero<0>();
    if constexpr (kN == 2) Tiles::template zero<1>();
    if constexpr (kM == 2) Tiles::template zero<2>();
    if constexpr (kM == 2 && kN == 2) Tiles::template zero<3>();
  }
}

template <class Tiles, int kM, int kN>
[[gnu::always_inline]] inline void tile_multiply(int64_t depth, const float* a, int64_t lda, const float* b,
                                                 int64_t ldb) {
  for (int64_t p = 0; p < depth; p += 16) {
    Tiles::template load<4>(a + p, lda);
    Tiles::template load<6>(b + p * ldb, ldb);
    Tiles::template mac<0, 4, 6>();
    if constexpr (kN == 2) {
      Tiles::template load<7>(b + p * ldb + 16, ldb);
      Tiles::template mac<1, 4, 7>();
    }
    if constexpr (kM == 2) {
      Tiles::template load<5>(a + 16 * lda + p, lda);
      Tiles::template mac<2, 5, 6>();
      if constexpr (kN == 2) Tiles::template mac<3, 5, 7>();
    }
  }
}

template <class Tiles, int kM, int kN>
[[gnu::always_inline]] inline void tile_end(float* c, int64_t ldc) {
  Tiles::template store<0>(c, ldc);
  if constexpr (kN == 2) Tiles::template store<1>(c + 16, ldc);
  if constexpr (kM == 2) Tiles::template store<2>(c + 16 * ldc, ldc);
  if constexpr (kM == 2 && kN == 2) Tiles::template store<3>(c + 16 * ldc + 16, ldc);
}

// f<kM, kN>(): 1 for 16, 2 for 32
template <class F>
[[gnu::always_inline]] inline void for_tiles(int64_t m, int64_t n, const F& f) {
  if (m > 16 && n > 16)
    f.template operator()<2, 2>();
  else if (m > 16)
    f.template operator()<2, 1>();
  else if (n > 16)
    f.template operator()<1, 2>();
  else
    f.template operator()<1, 1>();
}

// A block of at most 2 x 2 tiles of a product, with separate begin and end
struct TileBlock {
  int64_t m, n, depth;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
  bool add;

  template <class Tiles>
  [[gnu::noinline]] void begin() const {
    for_tiles(m, n, [&]<int kM, int kN>() {
      tile_begin<Tiles, kM, kN>(c, ldc, add);
      tile_multiply<Tiles, kM, kN>(depth, a, lda, b, ldb);
    });
  }
  template <class Tiles>
  [[gnu::noinline]] void end() const {
    for_tiles(m, n, [&]<int kM, int kN>() { tile_end<Tiles, kM, kN>(c, ldc); });
  }
  template <class Tiles>
  void whole() const {
    begin<Tiles>();
    end<Tiles>();
  }
};

template <class Tiles>
void tile_product(int64_t m, int64_t n, int64_t depth, const float* a, int64_t lda, const float* b,
                  int64_t ldb, float* c, int64_t ldc, bool add) {
  for (int64_t j = 0; j < n; j += 32)
    for (int64_t i = 0; i < m; i += 32) {
      const TileBlock block{m - i, n - j, depth, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, add};
      block.whole<Tiles>();
    }
}
