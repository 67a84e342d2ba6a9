// From one step of a roll-out to the next, as backend/cpu/roll.cpp does it.
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/pack.cuh"

namespace isobar::cuda {
namespace {

// One block a row. Patches may overwrite the previous step's: a time is read before it is written, with a
// barrier between times.
template <class P, class T>
__global__ void __launch_bounds__(256)
    roll_kernel(Patch s, Roll r, const P* __restrict__ prediction, const T* before,
                const float* __restrict__ forcing, T* patches) {
  const int p = static_cast<int>(s.p), area = p * p, of_a_time = static_cast<int>(s.channels / r.history);
  const int predicted = static_cast<int>(r.predicted), known = of_a_time - predicted;
  const int64_t row = blockIdx.x, first = row * s.channels * area;
  for (int h = 0; h + 1 < static_cast<int>(r.history); ++h) {
    const int64_t to = first + static_cast<int64_t>(h) * of_a_time * area;
    for (int j = threadIdx.x; j < of_a_time * area; j += 256)
      patches[to + j] = before[to + of_a_time * area + j];
    __syncthreads();
  }
  const int64_t to = first + (r.history - 1) * of_a_time * area, place = s.row0 + row;
  for (int j = threadIdx.x; j < predicted * area; j += 256) {
    float x[1];
    load<1>(prediction + row * area * predicted + (j % area) * predicted + j / area, x);
    store<1>(patches + to + j, x);
  }
  const auto token = static_cast<int>(s.token0 + place % s.tokens);
  const int across = static_cast<int>(s.width) / p, band = token / across, x0 = (token - band * across) * p;
  for (int j = threadIdx.x; j < known * area; j += 256) {
    const int64_t line = ((place / s.tokens) * known + j / area) * s.height + band * p + j % area / p;
    const float x[1] = {forcing[line * s.width + x0 + j % p]};
    store<1>(patches + to + predicted * area + j, x);
  }
}

template <class T, class P>
__global__ void __launch_bounds__(256) unroll_kernel(Patch s, Roll r, const T* __restrict__ patches,
                                                     P* __restrict__ prediction, T* __restrict__ carried) {
  const int area = static_cast<int>(s.p * s.p), of_a_time = static_cast<int>(s.channels / r.history);
  const int predicted = static_cast<int>(r.predicted);
  const int64_t row = blockIdx.x, first = row * s.channels * area;
  const int newest = static_cast<int>(r.history - 1) * of_a_time * area;
  for (int j = threadIdx.x; j < predicted * area; j += 256) {
    float x[1];
    load<1>(patches + first + newest + (j % predicted) * area + j / predicted, x);
    store<1>(prediction + row * area * predicted + j, x);
  }
  if (carried == nullptr) return;
  for (int j = threadIdx.x; j < newest + of_a_time * area; j += 256) {
    float x[1] = {0};
    if (j >= of_a_time * area) load<1>(patches + first + j - of_a_time * area, x);
    store<1>(carried + first + j, x);
  }
}

}  // namespace

void roll(const Patch& s, const Roll& r, const void* prediction, const void* before, const float* forcing,
          void* patches, cudaStream_t stream) {
  if (s.rows == 0) return;
  by_type(s.act, [&](auto act) {
    by_type(r.type, [&](auto type) {
      using T = decltype(act);
      using P = decltype(type);
      launch(roll_kernel<P, T>, grid(s.rows), 256, 0, stream, s, r, prediction, before, forcing, patches);
    });
  });
}

void unroll(const Patch& s, const Roll& r, const void* patches, void* prediction, void* carried,
            cudaStream_t stream) {
  if (s.rows == 0) return;
  by_type(s.act, [&](auto act) {
    by_type(r.type, [&](auto type) {
      using T = decltype(act);
      using P = decltype(type);
      launch(unroll_kernel<T, P>, grid(s.rows), 256, 0, stream, s, r, patches, prediction, carried);
    });
  });
}

}  // namespace isobar::cuda
