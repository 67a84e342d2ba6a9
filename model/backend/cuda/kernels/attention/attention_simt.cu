// Attention forward in f32 arithmetic: flash attention's online softmax (Dao et al. 2022), 64 queries and 32
// keys at a time. For strict f32, which has no matrix instruction: correct, not fast.
#include <cmath>

#include "model/backend/cuda/kernels/attention/attention_tile.cuh"

namespace isobar::cuda {
namespace {

constexpr int kQueries = 64;  // a thread has rows ty and ty + 32
constexpr int kPairs = kKeys + 1;

template <class T, int kColumns>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    forward_kernel(Attention a, TileShape s, const T* __restrict__ q, const T* __restrict__ k,
                   const T* __restrict__ v, T* __restrict__ o, float* __restrict__ lse) {
  float* const shared = dynamic_shared<float>();
  float* const q_tile = shared;                    // [64][ld]
  float* const k_tile = q_tile + kQueries * s.ld;  // [32][ld]
  float* const weights = k_tile + kKeys * s.ld;    // [64][33]
  float* const v_tile = weights + kQueries * kPairs;
  const int tiles = static_cast<int>((a.tq + kQueries - 1) / kQueries);
  const int64_t pair = blockIdx.x / tiles, batch = pair / a.heads, head = pair - batch * a.heads;
  const int64_t query0 = static_cast<int64_t>(blockIdx.x % tiles) * kQueries;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  const int ty = threadIdx.x / kAcrossTile, tx = threadIdx.x % kAcrossTile;
  load_tile(s, kQueries, a.tq - query0, q + (batch * a.tq + query0) * a.ld_q + head * a.d, a.ld_q, q_tile);
  float out[2][kColumns] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  const int64_t last = query0 + kQueries < a.tq ? query0 + kQueries : a.tq;  // end of the tile's queries
  const int64_t seen = a.end_of_keys(last - 1);
  for (int64_t key0 = a.first_key(query0) / kKeys * kKeys; key0 < seen; key0 += kKeys) {
    __syncthreads();  // the previous tiles are no longer read
    const int64_t at = (batch * a.tk + key0) * a.ld_kv + kv_head * a.d;
    load_tile(s, kKeys, a.tk - key0, k + at, a.ld_kv, k_tile);
    load_tile(s, kKeys, a.tk - key0, v + at, a.ld_kv, v_tile);
    __syncthreads();
    float score[2][4] = {};
    for (int e = 0; e < s.d; ++e) {
      const float q0 = q_tile[ty * s.ld + e], q1 = q_tile[(ty + 32) * s.ld + e];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float key = k_tile[(tx + 8 * j) * s.ld + e];
        score[0][j] = fmaf(q0, key, score[0][j]);
        score[1][j] = fmaf(q1, key, score[1][j]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = ty + 32 * r;
      float most = -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t key = key0 + tx + 8 * j;
        score[r][j] = sees(a, query0 + row, key)
                          ? (score[r][j] + more_of(a, head, query0 + row, key)) * a.scale
                          : -INFINITY;
        most = fmaxf(most, score[r][j]);
      }
      const float now = fmaxf(top[r], row_of_8_max(most));
      const float base = now == -INFINITY ? 0.0f : now;  // no key seen yet: avoids infinity minus infinity
      const float shrink = expf(top[r] - base);
      float added = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float p = expf(score[r][j] - base);
        added += p;
        weights[row * kPairs + tx + 8 * j] = s.operand(p);
      }
      sum[r] = sum[r] * shrink + row_of_8_sum(added);
      top[r] = now;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) out[r][c] *= shrink;
    }
    __syncwarp();  // one warp writes and reads a row's weights
    for (int j = 0; j < kKeys; ++j) {
      const float p0 = weights[ty * kPairs + j], p1 = weights[(ty + 32) * kPairs + j];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float value = v_tile[j * s.ld + tx + 8 * c];
        out[0][c] = fmaf(p0, value, out[0][c]);
        out[1][c] = fmaf(p1, value, out[1][c]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t query = query0 + ty + 32 * r;
    if (query >= a.tq) continue;
    if (tx == 0)
      lse[(batch * a.heads + head) * a.tq + query] = sum[r] > 0 ? top[r] + logf(sum[r]) : -INFINITY;
    const float inverse = sum[r] > 0 ? 1.0f / sum[r] : 0.0f;
    T* row = o + (batch * a.tq + query) * a.ld_o + head * a.d;
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (tx + 8 * c < s.d) row[tx + 8 * c] = as<T>(out[r][c] * inverse);
  }
}

// Merges attention over two sets of keys: softmax weights scale by exp(lse of the part - lse of both). One
// warp for each row and head.
template <class T>
__global__ void __launch_bounds__(256)
    merge_kernel(Attention a, bool first, const T* __restrict__ o, const float* __restrict__ lse,
                 float* o_sum, float* lse_sum) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (unit >= a.batch * a.tq * a.heads) return;
  const int64_t row = unit / a.heads, head = unit - row * a.heads;
  const int64_t stat = (row / a.tq * a.heads + head) * a.tq + row % a.tq, at = row * a.ld_o + head * a.d;
  float old_weight = 0, weight = 1, both = lse[stat];
  if (!first) {
    const float x = lse[stat], y = lse_sum[stat], top = fmaxf(x, y);
    both = top + logf(expf(x - top) + expf(y - top));
    old_weight = expf(y - both);
    weight = expf(x - both);
  }
  __syncwarp();  // every lane has read what the first writes next
  if (lane == 0) lse_sum[stat] = both;
  for (int64_t c = lane; c < a.d; c += 32) {
    const float part = as_float(o[at + c]);
    o_sum[at + c] =
        first ? part : old_weight * o_sum[at + c] + weight * part;  // first: o_sum is uninitialised
  }
}

}  // namespace

void attention_simt(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                    cudaStream_t stream) {
  if (a.batch * a.heads * a.tq == 0) return;
  const TileShape s{static_cast<int>(a.d), tile_ld(a.d), a.tf32};
  const size_t bytes = 4 * (static_cast<size_t>(kQueries + 2 * kKeys) * s.ld + kQueries * kPairs + kSlack);
  by_type(a.act, [&](auto type) {
    by_head_dim(a, [&](auto columns) {
      using T = decltype(type);
      constexpr int kColumns = columns();
      launch(forward_kernel<T, kColumns>, grid(ceil_div(a.tq, kQueries) * a.batch * a.heads),
             kAttentionThreads, bytes, stream, a, s, q, k, v, o, lse);
    });
  });
}

void attention_merge(const Attention& a, bool first, const void* o, const float* lse, float* o_sum,
                     float* lse_sum, cudaStream_t stream) {
  if (a.batch * a.heads * a.tq == 0) return;
  by_type(a.act, [&](auto type) {
    using T = decltype(type);
    launch(merge_kernel<T>, grid(ceil_div(a.batch * a.tq * a.heads, 8)), 256, 0, stream, a, first, o, lse,
           o_sum, lse_sum);
  });
}

}  // namespace isobar::cuda
