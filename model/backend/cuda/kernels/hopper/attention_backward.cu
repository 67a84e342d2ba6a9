// Attention backward on Hopper, with scores recomputed:
//
//   p = exp(q k scale - lse), dp = do v, ds = p (dp - rowsum(do o));  dv = p' do, dk = ds' q scale, dq = ds k
//   scale
//
// A block owns keys, keeps their dk and dv in registers, and iterates over tiles of 64 queries. One warpgroup
// loads tiles (TMA), the others compute:
//
//   by keys     heads up to 96: each has 64 keys and all of their sums, with keys as rows, so that registers
//               hold p' as the product dv wants it; dq by one of them, by turns (backward_by_keys.cuh)
//   by columns  wider heads: each has 64 columns of all results (backward_by_columns.cuh)
//
// dq is summed in memory by atomic adds, in f32 and in the order of the accumulators' registers, 16 bytes a
// thread; a last pass sorts, scales and rounds it.
#include "model/backend/cuda/kernels/hopper/attention.h"
#include "model/backend/cuda/kernels/hopper/backward_by_columns.cuh"
#include "model/backend/cuda/kernels/hopper/backward_by_keys.cuh"

namespace isobar::cuda {
namespace {

using namespace hopper;

template <class T, class L>
__global__ void __launch_bounds__(L::kThreads, 1)
    hopper_backward_kernel(Attention a, Results x, const __grid_constant__ TileMap q,
                           const __grid_constant__ TileMap k, const __grid_constant__ TileMap v,
                           const __grid_constant__ TileMap d_o) {
  unsigned char* const shared = shared_bytes();
  const Barriers<L> barriers{reinterpret_cast<uint64_t*>(shared + L::kBarriers)};
  if (threadIdx.x == 0) {
    constexpr uint32_t kWarps = L::kConsumers * kGroup / 32;
    make_barrier(barriers.keys(), 1);
    for (int i = 0; i < L::kStages; ++i) {
      make_barrier(barriers.q_full(i), 1);
      make_barrier(barriers.q_free(i), kWarps);
      make_barrier(barriers.do_full(i), 1);
      make_barrier(barriers.do_free(i), kWarps);
    }
    for (int i = 0; i < L::kSlotStages; ++i) {
      make_barrier(barriers.slot_full(i), kWarps);
      make_barrier(barriers.slot_free(i), kGroup / 32);
    }
    fence_new_barriers();
  }
  __syncthreads();
  const Work w = work_of_block<L>(a);
  const int group = warpgroup();
  if (group == 0) {
    set_registers<L::kLoaderRegisters, false>();
    if (threadIdx.x == 0) Loader<L>{a, w, x, barriers, shared, q, k, v, d_o}.load_all();
  } else {
    set_registers<L::kRegisters, true>();
    if constexpr (L::kByColumns)
      sum_by_columns<T, L>(a, w, x, barriers, shared, group - 1);
    else
      sum_by_keys<T, L>(a, w, x, barriers, shared, group - 1);
  }
}

constexpr int kRowsAtOnce = 4;  // of a thread of hopper_prepare
template <int kD>
constexpr int kLanes = kD <= 64    ? 8
                       : kD <= 128 ? 16
                                   : 32;  // of a row there
template <int kD>
constexpr int kPreparedRows = kThreads / kLanes<kD>* kRowsAtOnce;  // of a block

// Statistics of the queries of one head, for padding too, where they make weights 0; zeros to their dq
template <class T, int kD>
__global__ void hopper_prepare(Attention a, const T* o, const T* d_o, const float* lse, Results x) {
  constexpr int kL = kLanes<kD>;
  const int64_t rows = padded(a.tq), blocks = (rows + kPreparedRows<kD> - 1) / kPreparedRows<kD>;
  const int64_t pair = blockIdx.x / blocks, sample = pair / a.heads;
  const int lane = static_cast<int>(threadIdx.x) % kL;
  const int64_t first = (blockIdx.x - pair * blocks) * kPreparedRows<kD> + threadIdx.x / kL;
  const int64_t column = lane * 8;
  float u[kRowsAtOnce][8], v[kRowsAtOnce][8];
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) {
    const int64_t query = first + i * (kThreads / kL);
    const int64_t at = (sample * a.tq + query) * a.ld_o + (pair - sample * a.heads) * kD + column;
    if (query < a.tq && column < kD) {
      load<8>(o + at, u[i]);
      load<8>(d_o + at, v[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) {
    const int64_t query = first + i * (kThreads / kL), row = pair * rows + query;
    if (query < rows && column < kD) {
      float4* const dq = x.dq + row * (kD / 4) + column / 4;
      dq[0] = dq[1] = {0, 0, 0, 0};
    }
    float sum = 0;
    if (query < a.tq && column < kD)
#pragma unroll
      for (int c = 0; c < 8; ++c) sum = fmaf(u[i][c], v[i][c], sum);
#pragma unroll
    for (int step = kL / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane != 0 || query >= rows) continue;
    const float natural = query < a.tq ? lse[pair * a.tq + query] : INFINITY;
    x.lse[row] = isfinite(natural) ? natural * kLog2E : INFINITY;  // a query that sees no key has none
    x.sums[row] = sum;
  }
}

// A warpgroup a tile of 64 queries. Neighbours swap halves of 16 columns, so that a row's four write 32
// bytes.
template <class T, int kD>
__global__ void hopper_round_dq(Attention a, const float4* sums, T* dq) {
  const int64_t tiles = padded(a.tq) / kTile, pair = blockIdx.x / tiles, sample = pair / a.heads;
  const int64_t query = (blockIdx.x - pair * tiles) * kTile + first_row();
  const bool upper = threadIdx.x % 2 != 0;
  T* const to =
      dq + sample * a.tq * a.ld_q + (pair - sample * a.heads) * kD + first_column() + (upper ? 8 - 2 : 0);
  const auto store = [&](int64_t row, int column, uint32_t lower_half, uint32_t upper_half) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? lower_half : upper_half, 1);
    if (row < a.tq)
      *reinterpret_cast<uint2*>(to + row * a.ld_q + column) =
          upper ? uint2{got, upper_half} : uint2{lower_half, got};
  };
  constexpr int kHalves = kD / 8 <= 12 ? kD / 8 : kD / 8 % 4 == 0 ? kD / 16 : 2;  // at once
#pragma unroll
  for (int first = 0; first < kD / 8; first += kHalves) {
    float4 y[kHalves];
#pragma unroll
    for (int f = 0; f < kHalves; ++f)
      y[f] = sums[(int64_t{blockIdx.x} * (kD / 8) + first + f) * kGroup + threadIdx.x];
#pragma unroll
    for (int f = 0; f < kHalves; f += 2) {
      const float4 &l = y[f], &u = y[f + 1];
      const int column = 8 * (first + f);
      store(query, column, two<T>(l.x * a.scale, l.y * a.scale), two<T>(u.x * a.scale, u.y * a.scale));
      store(query + 8, column, two<T>(l.z * a.scale, l.w * a.scale), two<T>(u.z * a.scale, u.w * a.scale));
    }
  }
}

}  // namespace

bool hopper_takes_backward(const Attention& a) {
  return !a.deterministic && a.d <= kMostWidthBackward && hopper_takes_forward(a);
}

int64_t hopper_backward_workspace(const Attention& a) {
  return a.batch * a.heads * padded(a.tq) * (a.d + 2) * static_cast<int64_t>(sizeof(float));
}

void attention_hopper_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                               const float* lse, const void* d_o, void* dq, void* dk, void* dv,
                               float* workspace, cudaStream_t stream) {
  if (a.batch == 0) return;
  const int64_t rows = a.batch * a.heads * padded(a.tq);
  float* const lse_2 = workspace + rows * a.d;
  const Results x{lse_2, lse_2 + rows, a.scale * kLog2E, reinterpret_cast<float4*>(workspace), dk, dv};
  const auto run = [&](auto type) {
    using T = decltype(type);
    by_width<kMostWidthBackward>(a.d, [&](auto width) {
      using L = Layout<width()>;
      launch(hopper_prepare<T, L::kD>, grid(ceil_div(padded(a.tq), kPreparedRows<L::kD>) * a.batch * a.heads),
             kThreads, 0, stream, a, o, d_o, lse, x);
      launch(hopper_backward_kernel<T, L>, grid(ceil_div(a.tk, L::kKeys) * a.batch * a.kv_heads), L::kThreads,
             L::kBytes, stream, a, x, tile_map(q, a.d, a.heads, a.tq, a.batch, a.ld_q, L::kQueries),
             tile_map(k, a.d, a.kv_heads, a.tk, a.batch, a.ld_kv, L::kKeys),
             tile_map(v, a.d, a.kv_heads, a.tk, a.batch, a.ld_kv, L::kKeys),
             tile_map(d_o, a.d, a.heads, a.tq, a.batch, a.ld_o, L::kQueries));
      launch(hopper_round_dq<T, L::kD>, grid(rows / kTile), kGroup, 0, stream, a,
             reinterpret_cast<const float4*>(workspace), dq);
    });
  };
  a.act == DType::bf16 ? run(Bf16{}) : run(F16{});
}

}  // namespace isobar::cuda
