// Patches: im2col of a convolution whose stride is its kernel.
#include "model/backend/cuda/kernels/divisor.h"
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/pack.cuh"

namespace isobar::cuda {
namespace {

// One block a row: its token's patch, columns (c, row, col), V columns a thread. Patch and image are read in
// runs of p floats; neighbouring blocks read the rest of the same lines.
template <class T, int V>
__global__ void __launch_bounds__(256)
    patches_kernel(Patch s, Divisor by_tokens, Divisor by_across, Divisor by_p,
                   const float* __restrict__ image, T* __restrict__ patches) {
  const int p = by_p.size(), columns = static_cast<int>(s.channels) * p * p;
  const auto global = static_cast<int>(s.row0 + blockIdx.x);
  const int64_t sample = by_tokens(global);
  const auto token = static_cast<int>(s.token0) + global - by_tokens(global) * by_tokens.size();
  const int band = by_across(token), x0 = (token - band * by_across.size()) * p;
  for (int j = threadIdx.x * V; j < columns; j += 256 * V) {
    const int line = by_p(j), c = by_p(line), row = line - c * p, col = j - line * p;
    float x[V];
    load<V>(image + ((sample * s.channels + c) * s.height + band * p + row) * s.width + x0 + col, x);
    store<V>(patches + static_cast<int64_t>(blockIdx.x) * columns + j, x);
  }
}

}  // namespace

void patch_gather(const Patch& s, const float* image, void* patches, cudaStream_t stream) {
  if (s.rows == 0) return;
  const Divisor by_tokens(s.tokens), by_across(s.width / s.p), by_p(s.p);
  grid(s.row0 + s.rows);  // 32 bits count all rows
  by_type(s.act, [&](auto type) {
    using T = decltype(type);
    by_pack<4>(s.p % 4 == 0 && s.width % 4 == 0 && on_16_bytes(image, patches), [&](auto width) {
      launch(patches_kernel<T, width()>, grid(s.rows), 256, 0, stream, s, by_tokens, by_across, by_p, image,
             patches);
    });
  });
}

}  // namespace isobar::cuda
