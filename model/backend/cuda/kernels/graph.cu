// Graph networks: gathers by constant indices, and segment sums in which one thread adds a pack of columns in
// row order: no atomics, bitwise reproducible.
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/pack.cuh"

namespace isobar::cuda {
namespace {

// Blocks of 32 packs by 8 rows of a sample; rows stride over the grid, samples in sequence, which avoids a
// 64-bit division a row
struct Tile {
  int64_t row, step;
  int pack;
};
__device__ inline Tile tile_of() {
  return {static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32, static_cast<int64_t>(gridDim.x) * 8,
          static_cast<int>(blockIdx.y) * 32 + static_cast<int>(threadIdx.x) % 32};
}

// y may be the base: one thread reads an element before it writes it
template <class T, class Base, int V>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(Gather p, const Base* base, const T* __restrict__ table, const int32_t* __restrict__ index,
                  const T* __restrict__ table2, const int32_t* __restrict__ index2, T* y) {
  const Tile t = tile_of();
  const int64_t j = static_cast<int64_t>(t.pack) * V;
  if (j >= p.cols) return;
  for (int64_t sample = 0; sample < p.batch; ++sample) {
    const int64_t rows0 = sample * p.table_rows, rows2 = sample * p.table2_rows;
    for (int64_t of = t.row; of < p.rows; of += t.step) {
      const int64_t at = (sample * p.rows + of) * p.cols + j;
      float sum[V], more[V];
      const int32_t row = index[of];
      load<V>(table + (rows0 + (row < 0 ? 0 : row)) * p.cols + j, sum);
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] = row < 0 ? 0.0f : sum[i];
      if (table2 != nullptr) {
        const int32_t row2 = index2[of];
        load<V>(table2 + (rows2 + (row2 < 0 ? 0 : row2)) * p.cols + j, more);
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] += row2 < 0 ? 0.0f : more[i];
      }
      if (base != nullptr) {
        load<V>(base + at, more);
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] += more[i];
      }
      store<V>(y + at, sum);
    }
  }
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    segment_sum_kernel(SegmentSum p, const T* __restrict__ x, const int32_t* __restrict__ offsets,
                       const int32_t* __restrict__ order, T* __restrict__ y) {
  const Tile t = tile_of();
  const int64_t j = static_cast<int64_t>(t.pack) * V;
  if (j >= p.cols) return;
  for (int64_t sample = 0; sample < p.batch; ++sample) {
    const T* const of_sample = x + sample * p.rows * p.cols + j;
    for (int64_t of = t.row; of < p.segments; of += t.step) {
      float sum[V] = {};
      const int32_t end = offsets[of + 1];
      for (int32_t e = offsets[of]; e < end; ++e) {
        float more[V];
        load<V>(of_sample + static_cast<int64_t>(order != nullptr ? order[e] : e) * p.cols, more);
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] += more[i];
      }
      store<V>(y + (sample * p.segments + of) * p.cols + j, sum);
    }
  }
}

// launch(V) with packs of four where the operands allow it
template <class Launch>
void by_four(bool aligned, int64_t rows, int64_t cols, const Launch& launch) {
  if (rows == 0 || cols == 0) return;
  const auto blocks = [&](int64_t packs) {
    return dim3(static_cast<unsigned>(std::min<int64_t>(ceil_div(rows, 8), 1 << 16)),
                grid(ceil_div(packs, 32)));
  };
  by_pack<4>(aligned && cols % 4 == 0, [&](auto width) { launch(width, blocks(cols / width())); });
}

}  // namespace

void gather(const Gather& p, const void* base, const void* table, const int32_t* index, const void* table2,
            const int32_t* index2, void* y, cudaStream_t stream) {
  by_type(p.act, [&](auto type) {
    using T = decltype(type);
    by_flag(p.base == p.act, [&](auto same) {
      using Base = std::conditional_t<same(), T, float>;
      by_four(on_16_bytes(base, table, table2, y), p.rows, p.cols, [&](auto v, dim3 blocks) {
        launch(gather_kernel<T, Base, v()>, blocks, kThreads, 0, stream, p, base, table, index, table2,
               index2, y);
      });
    });
  });
}

void segment_sum(const SegmentSum& p, const void* x, const int32_t* offsets, const int32_t* order, void* y,
                 cudaStream_t stream) {
  by_type(p.act, [&](auto type) {
    using T = decltype(type);
    by_four(on_16_bytes(x, y), p.segments, p.cols, [&](auto v, dim3 blocks) {
      launch(segment_sum_kernel<T, v()>, blocks, kThreads, 0, stream, p, x, offsets, order, y);
    });
  });
}

}  // namespace isobar::cuda
