#include "model/backend/cuda/kernels/hopper/products.h"

#include "model/backend/cuda/kernels/hopper/fragments.cuh"

namespace isobar::cuda {
namespace {

using namespace hopper;

constexpr int kColumns = 128, kSteps = kTile / kInnerStep;
constexpr int kTileBytes = 2 * kTile * kRowBytes;  // two panels

template <int kN>
__device__ void store(const float (&sums)[kN / 2], int form, float* z) {
  for (int i = 0; i < kN / 2; ++i)
    z[(form * kTile + first_row() + i % 4 / 2 * 8) * kColumns + i / 4 * 8 + first_column() + i % 2] = sums[i];
}

__global__ void __launch_bounds__(kGroup, 1)
    products_kernel(float* z, const __grid_constant__ TileMap x_map, const __grid_constant__ TileMap y_map) {
  unsigned char* const shared = shared_bytes();
  auto* const loaded = reinterpret_cast<uint64_t*>(shared + 2 * kTileBytes + kTile * kRowBytes);
  if (threadIdx.x == 0) {
    make_barrier(loaded, 1);
    fence_new_barriers();
    expect_bytes(loaded, 2 * kTileBytes);
    for (int panel = 0; panel < 2; ++panel) {
      load_tile(x_map, loaded, shared + panel * kTile * kRowBytes, panel * kPanelColumns, 0, 0, 0);
      load_tile(y_map, loaded, shared + kTileBytes + panel * kTile * kRowBytes, panel * kPanelColumns, 0, 0,
                0);
    }
  }
  __syncthreads();
  wait_for_phase(loaded, 0);
  const uint32_t x = shared_address(shared), y = x + kTileBytes, rounded = y + kTileBytes;

  float narrow[kTile / 2];
  begin_products();
#pragma unroll
  for (int k = 0; k < kColumns / kInnerStep; ++k)
    multiply<Bf16, kTile, false, false>(narrow, columns_inner(x, kTile, k), columns_inner(y, kTile, k),
                                        k > 0);
  commit_products();
  wait_for_products<0>(narrow);
  store<kTile>(narrow, 0, z);

  float wide[kColumns / 2];
  begin_products();
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    multiply<Bf16, kColumns, false, true>(wide, columns_inner(x, kTile, k), rows_inner(y, kTile, k), k > 0);
  commit_products();
  wait_for_products<0>(wide);
  store<kColumns>(wide, 1, z);

  begin_products();
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    multiply<Bf16, kColumns, true, true>(wide, rows_inner(x, kTile, k), rows_inner(y, kTile, k), k > 0);
  commit_products();
  wait_for_products<0>(wide);
  store<kColumns>(wide, 2, z);

  uint32_t words[kSteps][4];
  for (int k = 0; k < kSteps; ++k)
    for (int i = 0; i < 4; ++i)
      words[k][i] = *reinterpret_cast<const uint32_t*>(
          shared + byte_in_panel(first_row() + i % 2 * 8, k * kInnerStep + i / 2 * 8 + first_column()));
  begin_products(words);
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    multiply<Bf16, kColumns, true>(wide, words[k], rows_inner(y, kTile, k), k > 0);
  commit_products();
  wait_for_products<0>(wide);
  store<kColumns>(wide, 3, z);

  round_operand<Bf16>(narrow, words);
  store_operand(words, shared_address(shared + 2 * kTileBytes));
  fence_for_products();
  named_barrier(1, kGroup);
  begin_products();
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    multiply<Bf16, kColumns, false, true>(wide, columns_inner(rounded, kTile, k), rows_inner(y, kTile, k),
                                          k > 0);
  commit_products();
  wait_for_products<0>(wide);
  store<kColumns>(wide, 4, z);
}

}  // namespace

const char* name_of_product(int form) {
  constexpr const char* kNames[kProductForms] = {"both by columns", "by columns and by rows", "both by rows",
                                                 "registers and by rows", "stored and by rows"};
  return kNames[form];
}

void hopper_products(const void* x, const void* y, int rows, int columns, float* z, cudaStream_t stream) {
  const auto map = [&](const void* p) { return tile_map(p, columns, 1, rows, 1, columns, kTile); };
  launch(products_kernel, 1, kGroup, 2 * kTileBytes + kTile * kRowBytes + 8, stream, z, map(x), map(y));
}

}  // namespace isobar::cuda
