// Which tiles of a tensor [samples, tokens, heads, columns] Hopper's copy engine loads: made on the host,
// passed by value to a kernel as `const __grid_constant__ TileMap`.
#pragma once
#include <cstdint>

#ifndef ISOBAR_EMULATED
#include <cuda.h>
#endif

namespace isobar::cuda {

struct TileMap {
#ifdef ISOBAR_EMULATED
  const unsigned char* base;
  int64_t dims[4], strides[4];  // columns, heads, tokens, samples; bytes
  int rows;                     // of a tile
#else
  CUtensorMap map;
#endif
};

/// Tiles of 64 columns and `rows` tokens of one head, 16-bit, with their 16-byte chunks swizzled over 128
/// bytes (kernels/hopper/instructions.cuh). `ld`: elements between tokens, divisible by 8, as is `columns`;
/// `p` on 16 bytes.
TileMap tile_map(const void* p, int64_t columns, int64_t heads, int64_t tokens, int64_t samples, int64_t ld,
                 int rows);

}  // namespace isobar::cuda
