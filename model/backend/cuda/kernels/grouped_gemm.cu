// Products of groups of rows whose sizes are data, on tensor cores, or for strict f32 without them. A block
// has a tile of results and finds its group by the offsets, so nothing waits for the host. Sums run in a
// fixed order.
#include <algorithm>

#include "model/backend/cuda/kernels/attention/attention_mma.cuh"

namespace isobar::cuda {
namespace {

constexpr int kSide = 64;  // of a tile of results, and its warps have 16 rows each
constexpr int kDeep = 32;  // of a step along the sum
constexpr int kGroupThreads = kSide / 16 * 32;
constexpr int kFragmentsAcross = kSide / kFragment;

struct TileOfGroup {
  int64_t group, row;  // row of the group's
};

// The y-th tile of rows of all groups; group -1: there are fewer
__device__ TileOfGroup tile_of_group(const int32_t* offsets, int64_t groups, int64_t y) {
  __shared__ int tiles[kGroupThreads];
  __shared__ int64_t found[2];
  if (threadIdx.x == 0) found[0] = -1;
  for (int64_t first = 0; first < groups; first += kGroupThreads) {
    const int64_t g = first + threadIdx.x;
    tiles[threadIdx.x] = g < groups ? (offsets[g + 1] - offsets[g] + kSide - 1) / kSide : 0;
    __syncthreads();
    if (threadIdx.x == 0 && found[0] < 0)
      for (int i = 0; i < kGroupThreads; ++i) {
        if (y < tiles[i]) {
          found[0] = first + i;
          found[1] = y * kSide;
          break;
        }
        y -= tiles[i];
      }
    __syncthreads();
    if (found[0] >= 0) break;
  }
  return {found[0], found[1]};
}

// tile[i][k] = from[i * by_row + k * by_sum]; outside rows and columns 0
template <class T>
__device__ void load_part(T* tile, const T* from, int64_t rows, int64_t columns, int64_t by_row,
                          int64_t by_sum) {
  constexpr int kLd = mma_ld<T>(kDeep);
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kDeep; i += kGroupThreads) {
    const int r = by_sum == 1 ? i / kDeep : i % kSide, k = by_sum == 1 ? i % kDeep : i / kSide;
    tile[r * kLd + k] = r < rows && k < columns ? from[r * by_row + k * by_sum] : as<T>(0.0f);
  }
}

template <class T>
__device__ void add_products(float (&c)[kFragmentsAcross][4], const T* x, const T* y, int row0) {
  constexpr int kLd = mma_ld<T>(kDeep);
  for (int k = 0; k < kDeep; ++k)
    for (int f = 0; f < kFragmentsAcross; ++f)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        c[f][i] += as_float(x[(row0 + row_in_fragment(i)) * kLd + k]) *
                   as_float(y[(f * kFragment + column_in_fragment(i)) * kLd + k]);
}

template <class T>
__device__ void round_part(T* tile) {
  for (int i = static_cast<int>(threadIdx.x); i < kSide * mma_ld<T>(kDeep); i += kGroupThreads)
    tile[i] = operand<T>(tile[i]);
}

template <class T, class R, bool kTensorCores>
__global__ void __launch_bounds__(kGroupThreads)
    grouped_kernel(GroupedGemm p, const int32_t* __restrict__ offsets, const T* __restrict__ A,
                   const T* __restrict__ B, R* __restrict__ C) {
  __shared__ __align__(16) unsigned char room[2 * kSide * mma_ld<T>(kDeep) * sizeof(T)];
  T *const x = reinterpret_cast<T*>(room), *const y = x + kSide * mma_ld<T>(kDeep);
  TileOfGroup at{static_cast<int64_t>(blockIdx.z), static_cast<int64_t>(blockIdx.y) * kSide};
  if (!p.trans_a) at = tile_of_group(offsets, p.groups, blockIdx.y);
  if (at.group < 0) return;
  const int64_t first = offsets[at.group], count = offsets[at.group + 1] - first;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSide;
  const int64_t rows = (p.trans_a ? p.m : count) - at.row, columns = p.n - column,
                sum = p.trans_a ? count : p.k;
  const int64_t a_row = p.trans_a ? 1 : p.k, a_sum = p.trans_a ? p.m : 1;
  const int64_t b_row = p.trans_b ? p.k : 1, b_sum = p.trans_b ? 1 : p.n;
  const T* const a = A + (p.trans_a ? first * p.m : first * p.k) + at.row * a_row;
  const T* const b = B + (p.trans_a ? first * p.n : at.group * p.n * p.k) + column * b_row;
  const int row0 = static_cast<int>(threadIdx.x) / 32 * 16;
  float c[kFragmentsAcross][4] = {};
  for (int64_t k = 0; k < sum; k += kDeep) {
    load_part(x, a + k * a_sum, rows, sum - k, a_row, a_sum);
    load_part(y, b + k * b_sum, columns, sum - k, b_row, b_sum);
    __syncthreads();
    if constexpr (kTensorCores && sizeof(T) == 4) {
      round_part(x);
      round_part(y);
      __syncthreads();
    }
    if constexpr (kTensorCores)
      rows_times_rows<T>(c, x, y, mma_ld<T>(kDeep), row0, 0, kFragment, kDeep);
    else
      add_products(c, x, y, row0);
    __syncthreads();
  }
  R* const to = C + (p.trans_a ? at.group * p.m + at.row : first + at.row) * p.n + column;
  for (int f = 0; f < kFragmentsAcross; ++f)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row0 + row_in_fragment(i), j = f * kFragment + column_in_fragment(i);
      if (r >= rows || j >= columns) continue;
      R& element = to[r * p.n + j];
      element = as<R>(p.accumulate ? as_float(element) + c[f][i] : c[f][i]);
    }
}

}  // namespace

void grouped_gemm(const GroupedGemm& p, const int32_t* offsets, const void* A, const void* B, void* C,
                  cudaStream_t stream) {
  if (p.m * p.n == 0) return;
  const int64_t down = ceil_div(p.m, kSide);
  const dim3 blocks(grid(ceil_div(p.n, kSide)), grid(p.trans_a ? down : down + p.groups),
                    p.trans_a ? grid(p.groups) : 1);
  const auto run = [&](auto type, auto result, auto tensor_cores) {
    using T = decltype(type);
    using R = decltype(result);
    launch(grouped_kernel<T, R, tensor_cores()>, blocks, kGroupThreads, 0, stream, p, offsets, A, B, C);
  };
  by_type(p.operands, [&](auto type) {
    if constexpr (sizeof(type) == 4)
      p.tf32 ? run(type, type, std::true_type()) : run(type, type, std::false_type());
    else
      p.result == DType::f32 ? run(type, float(), std::true_type()) : run(type, type, std::true_type());
  });
}

}  // namespace isobar::cuda
