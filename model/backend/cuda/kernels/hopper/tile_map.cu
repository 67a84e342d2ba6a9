#include "model/backend/cuda/kernels/hopper/tile_map.h"

#include <stdexcept>
#include <string>

#include "model/backend/cuda/runtime/device.h"

namespace isobar::cuda {

#ifdef ISOBAR_EMULATED

TileMap tile_map(const void* p, int64_t columns, int64_t heads, int64_t tokens, int64_t samples, int64_t ld,
                 int rows) {
  return {static_cast<const unsigned char*>(p),
          {columns, heads, tokens, samples},
          {2, 2 * columns, 2 * ld, 2 * ld * tokens},
          rows};
}

#else

TileMap tile_map(const void* p, int64_t columns, int64_t heads, int64_t tokens, int64_t samples, int64_t ld,
                 int rows) {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    ISOBAR_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                                 &status));
    if (status != cudaDriverEntryPointSuccess || !found)
      throw std::runtime_error("the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  }();
  const auto dim = [](int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t dims[4] = {dim(columns), dim(heads), dim(tokens), dim(samples)};
  const cuuint64_t strides[3] = {dim(2 * columns), dim(2 * ld), dim(2 * ld * tokens)};
  const cuuint32_t box[4] = {64, 1, static_cast<cuuint32_t>(rows), 1}, steps[4] = {1, 1, 1, 1};
  TileMap made;
  const CUresult result =
      encode(&made.map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<void*>(p), dims, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("cuTensorMapEncodeTiled refuses [" + std::to_string(samples) + ", " +
                             std::to_string(tokens) + ", " + std::to_string(heads) + ", " +
                             std::to_string(columns) + "], rows " + std::to_string(ld) + " apart: CUresult " +
                             std::to_string(static_cast<int>(result)));
  return made;
}

#endif

}  // namespace isobar::cuda
