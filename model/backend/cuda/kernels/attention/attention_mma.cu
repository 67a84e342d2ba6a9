// Attention forward on tensor cores: flash attention's online softmax (Dao et al. 2022), 64 queries and 32
// keys at a time. For tf32, and for 16-bit shapes, that cuDNN's fused attention does not support.
#include <cmath>

#include "model/backend/cuda/kernels/attention/attention_mma.cuh"

namespace isobar::cuda {
namespace {

constexpr int kWarps = 4, kQueries = 16 * kWarps;  // 16 queries a warp
constexpr int kScores = kStreamed / kFragment;     // fragments

template <class T>
constexpr int kLdWeights = mma_ld<T>(kStreamed);

// Reduces over the 4 threads that share a fragment's row
__device__ inline float row_of_4_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline float row_of_4_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

template <class T, int kD>
__global__ void __launch_bounds__(32 * kWarps, 1)
    mma_forward_kernel(Attention a, MmaShape s, const T* __restrict__ q, const T* __restrict__ k,
                       const T* __restrict__ v, T* __restrict__ o, float* __restrict__ lse) {
  constexpr int kOut = kD / kFragment;
  constexpr float kLog2e = 1.44269504f;
  const int ld = mma_ld<T>(s.columns);
  T* const q_tile = dynamic_shared<T>();       // [64][ld]
  T* const k_tile = q_tile + kQueries * ld;    // [32][ld]
  T* const v_tile = k_tile + kStreamed * ld;   // [32][ld]
  T* const weights = v_tile + kStreamed * ld;  // [64][kLdWeights]
  const int tiles = static_cast<int>((a.tq + kQueries - 1) / kQueries);
  const int64_t pair = blockIdx.x / tiles, batch = pair / a.heads, head = pair - batch * a.heads;
  const int64_t query0 = static_cast<int64_t>(blockIdx.x % tiles) * kQueries;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  const int row0 = static_cast<int>(threadIdx.x) / 32 * 16;  // the warp's first row
  load_mma_tile(s, kQueries, a.tq - query0, q + (batch * a.tq + query0) * a.ld_q + head * a.d, a.ld_q,
                q_tile);
  float out[kOut][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  const float scale = a.scale * kLog2e;
  const int64_t last = query0 + kQueries < a.tq ? query0 + kQueries : a.tq;  // end of the queries
  const int64_t seen = a.end_of_keys(last - 1);
  for (int64_t key0 = a.first_key(query0) / kStreamed * kStreamed; key0 < seen; key0 += kStreamed) {
    __syncthreads();  // the previous tiles are no longer read
    const int64_t at = (batch * a.tk + key0) * a.ld_kv + kv_head * a.d;
    load_mma_tile(s, kStreamed, a.tk - key0, k + at, a.ld_kv, k_tile);
    load_mma_tile(s, kStreamed, a.tk - key0, v + at, a.ld_kv, v_tile);
    __syncthreads();
    float score[kScores][4] = {};
    rows_times_rows(score, q_tile, k_tile, ld, row0, 0, kFragment, s.columns);
    float now[2] = {top[0], top[1]};
#pragma unroll
    for (int f = 0; f < kScores; ++f)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t query = query0 + row0 + row_in_fragment(i);
        const int64_t key = key0 + f * kFragment + column_in_fragment(i);
        score[f][i] = sees(a, query, key) ? score[f][i] + more_of(a, head, query, key) : -INFINITY;
        now[i / 2] = fmaxf(now[i / 2], score[f][i] * scale);
      }
    float base[2], added[2] = {};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      now[r] = row_of_4_max(now[r]);
      base[r] = now[r] == -INFINITY ? 0.0f : now[r];
    }
#pragma unroll
    for (int f = 0; f < kScores; ++f) {
      float p[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[i] = exp2f(fmaf(score[f][i], scale, -base[i / 2]));
        added[i / 2] += p[i];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
        weights[(row0 + row_in_fragment(i)) * kLdWeights<T> + f * kFragment + column_in_fragment(i)] =
            operand<T>(p[i]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float shrink = exp2f(top[r] - base[r]);
      sum[r] = sum[r] * shrink + row_of_4_sum(added[r]);
      top[r] = now[r];
#pragma unroll
      for (int f = 0; f < kOut; ++f)
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) out[f][i] *= shrink;
    }
    __syncwarp();  // one warp writes and reads a row's weights
    rows_times_columns(out, weights, kLdWeights<T>, row0, v_tile, ld, 0, kFragment, s.columns);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t query = query0 + row0 + row_in_fragment(2 * r);
    if (query >= a.tq) continue;
    if (threadIdx.x % 4 == 0)
      lse[(batch * a.heads + head) * a.tq + query] = sum[r] > 0 ? top[r] / kLog2e + logf(sum[r]) : -INFINITY;
    const float inverse = sum[r] > 0 ? 1.0f / sum[r] : 0.0f;
    T* row = o + (batch * a.tq + query) * a.ld_o + head * a.d;
#pragma unroll
    for (int f = 0; f < kOut; ++f)
#pragma unroll
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        const int c = f * kFragment + column_in_fragment(i);
        if (c < s.d) row[c] = as<T>(out[f][i] * inverse);
      }
  }
}

}  // namespace

void attention_mma(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                   cudaStream_t stream) {
  if (a.batch * a.heads * a.tq == 0) return;
  const MmaShape s = mma_shape(a, {q, k, v, o});
  by_type(a.act, [&](auto type) {
    using T = decltype(type);
    const size_t bytes = sizeof(T) * ((kQueries + 2 * kStreamed) * static_cast<size_t>(mma_ld<T>(s.columns)) +
                                      kQueries * kLdWeights<T>);
    by_mma_width(a, [&](auto width) {
      launch(mma_forward_kernel<T, width()>, grid(ceil_div(a.tq, kQueries) * a.batch * a.heads), 32 * kWarps,
             bytes, stream, a, s, q, k, v, o, lse);
    });
  });
}

}  // namespace isobar::cuda
