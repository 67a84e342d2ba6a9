// Attention backward in f32 arithmetic, with forward recomputed: dk and dv by blocks that own keys and
// iterate over queries, dq by blocks that own queries and iterate over keys. Without atomics the result is
// reproducible.
//
//   p = exp(q k scale - lse), dp = do v, ds = p (dp - rowsum(do o)) scale;  dv = p' do, dk = ds' q, dq = ds k
#include <cmath>

#include "model/backend/cuda/kernels/attention/attention_tile.cuh"

namespace isobar::cuda {
namespace {

constexpr int kQueries = 32;
constexpr int kPairs = kKeys + 1;

// delta [batch, heads, tq]: one warp for each row and head
template <class T>
__global__ void __launch_bounds__(256)
    delta_kernel(Attention a, const T* __restrict__ o, const T* __restrict__ d_o, float* __restrict__ delta) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (unit >= a.batch * a.tq * a.heads) return;
  const int64_t row = unit / a.heads, head = unit - row * a.heads, at = row * a.ld_o + head * a.d;
  float sum = 0;
  for (int64_t c = threadIdx.x % 32; c < a.d; c += 32)
    sum = fmaf(as_float(o[at + c]), as_float(d_o[at + c]), sum);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) delta[(row / a.tq * a.heads + head) * a.tq + row % a.tq] = sum;
}

struct Tiles {
  float *q, *d_o, *k, *v;   // [32][ld] each
  float *weights, *slopes;  // [32 queries][33]: p and ds
  __device__ Tiles(const TileShape& s, float* base)
      : q(base),
        d_o(q + kQueries * s.ld),
        k(d_o + kQueries * s.ld),
        v(k + kKeys * s.ld),
        weights(v + kKeys * s.ld + kSlack),
        slopes(weights + kQueries * kPairs) {}
};

// p and ds of 32 loaded queries and keys: a thread has one query and four keys
__device__ void weights_and_slopes(const Attention& a, const TileShape& s, const Tiles& t, int64_t head,
                                   int64_t query0, int64_t key0, const float* lse, const float* delta) {
  const int ty = threadIdx.x / kAcrossTile, tx = threadIdx.x % kAcrossTile;
  float score[4] = {}, dp[4] = {};
  for (int e = 0; e < s.d; ++e) {
    const float q = t.q[ty * s.ld + e], d_o = t.d_o[ty * s.ld + e];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      score[j] = fmaf(q, t.k[(tx + 8 * j) * s.ld + e], score[j]);
      dp[j] = fmaf(d_o, t.v[(tx + 8 * j) * s.ld + e], dp[j]);
    }
  }
  const int64_t query = query0 + ty;
  const float row_lse = query < a.tq ? lse[query] : 0.0f, row_delta = query < a.tq ? delta[query] : 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int64_t key = key0 + tx + 8 * j;
    const bool seen = sees(a, query, key);
    const float p = seen ? expf((score[j] + more_of(a, head, query, key)) * a.scale - row_lse) : 0.0f;
    t.weights[ty * kPairs + tx + 8 * j] = s.operand(p);
    t.slopes[ty * kPairs + tx + 8 * j] = seen ? s.operand(p * (dp[j] - row_delta) * a.scale) : 0.0f;
  }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    keys_kernel(Attention a, TileShape s, BackwardOperands<T> x) {
  float* const shared = dynamic_shared<float>();
  const Tiles t(s, shared);
  const int tiles = static_cast<int>((a.tk + kKeys - 1) / kKeys);
  const int64_t pair = blockIdx.x / tiles, batch = pair / a.kv_heads, kv_head = pair - batch * a.kv_heads;
  const int64_t key0 = static_cast<int64_t>(blockIdx.x % tiles) * kKeys, group = a.heads / a.kv_heads;
  const int64_t at = (batch * a.tk + key0) * a.ld_kv + kv_head * a.d;
  const int ty = threadIdx.x / kAcrossTile, tx = threadIdx.x % kAcrossTile;
  load_tile(s, kKeys, a.tk - key0, x.k + at, a.ld_kv, t.k);
  load_tile(s, kKeys, a.tk - key0, x.v + at, a.ld_kv, t.v);
  float dk[kColumns] = {}, dv[kColumns] = {};  // of key ty
  const int64_t first = a.first_query(key0) / kQueries * kQueries, end = a.end_of_queries(key0 + kKeys - 1);
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const float* lse = x.lse + (batch * a.heads + head) * a.tq;
    const float* delta = x.delta + (batch * a.heads + head) * a.tq;
    for (int64_t query0 = first; query0 < end; query0 += kQueries) {
      const int64_t row = batch * a.tq + query0;
      __syncthreads();
      load_tile(s, kQueries, a.tq - query0, x.q + row * a.ld_q + head * a.d, a.ld_q, t.q);
      load_tile(s, kQueries, a.tq - query0, x.d_o + row * a.ld_o + head * a.d, a.ld_o, t.d_o);
      __syncthreads();
      weights_and_slopes(a, s, t, head, query0, key0, lse, delta);
      __syncthreads();
      for (int i = 0; i < kQueries; ++i) {
        const float p = t.weights[i * kPairs + ty], ds = t.slopes[i * kPairs + ty];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          dv[c] = fmaf(p, t.d_o[i * s.ld + tx + 8 * c], dv[c]);
          dk[c] = fmaf(ds, t.q[i * s.ld + tx + 8 * c], dk[c]);
        }
      }
    }
  }
  if (key0 + ty >= a.tk) return;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    if (tx + 8 * c >= s.d) continue;
    x.dk[at + ty * a.ld_kv + tx + 8 * c] = as<T>(dk[c]);
    x.dv[at + ty * a.ld_kv + tx + 8 * c] = as<T>(dv[c]);
  }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    queries_kernel(Attention a, TileShape s, BackwardOperands<T> x) {
  float* const shared = dynamic_shared<float>();
  const Tiles t(s, shared);
  const int tiles = static_cast<int>((a.tq + kQueries - 1) / kQueries);
  const int64_t pair = blockIdx.x / tiles, batch = pair / a.heads, head = pair - batch * a.heads;
  const int64_t query0 = static_cast<int64_t>(blockIdx.x % tiles) * kQueries;
  const int64_t kv_head = head / (a.heads / a.kv_heads), row = batch * a.tq + query0;
  const int ty = threadIdx.x / kAcrossTile, tx = threadIdx.x % kAcrossTile;
  load_tile(s, kQueries, a.tq - query0, x.q + row * a.ld_q + head * a.d, a.ld_q, t.q);
  load_tile(s, kQueries, a.tq - query0, x.d_o + row * a.ld_o + head * a.d, a.ld_o, t.d_o);
  const float* lse = x.lse + pair * a.tq;
  const float* delta = x.delta + pair * a.tq;
  float dq[kColumns] = {};  // of query ty
  const int64_t last = query0 + kQueries < a.tq ? query0 + kQueries : a.tq;
  const int64_t seen = a.end_of_keys(last - 1);
  for (int64_t key0 = a.first_key(query0) / kKeys * kKeys; key0 < seen; key0 += kKeys) {
    const int64_t at = (batch * a.tk + key0) * a.ld_kv + kv_head * a.d;
    __syncthreads();
    load_tile(s, kKeys, a.tk - key0, x.k + at, a.ld_kv, t.k);
    load_tile(s, kKeys, a.tk - key0, x.v + at, a.ld_kv, t.v);
    __syncthreads();
    weights_and_slopes(a, s, t, head, query0, key0, lse, delta);
    __syncwarp();  // one warp writes and reads a query's slopes
    for (int j = 0; j < kKeys; ++j) {
      const float ds = t.slopes[ty * kPairs + j];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) dq[c] = fmaf(ds, t.k[j * s.ld + tx + 8 * c], dq[c]);
    }
  }
  if (query0 + ty >= a.tq) return;
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (tx + 8 * c < s.d) x.dq[(row + ty) * a.ld_q + head * a.d + tx + 8 * c] = as<T>(dq[c]);
}

// A tile of 32 queries and 32 keys of a head, summed over the samples in their order; a thread reads only the
// slopes that it has written
template <class T>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    dbias_kernel(Attention a, TileShape s, BackwardOperands<T> x, float* __restrict__ dbias) {
  float* const shared = dynamic_shared<float>();
  const Tiles t(s, shared);
  const int64_t across = (a.tq + kQueries - 1) / kQueries, down = (a.tk + kKeys - 1) / kKeys;
  const int64_t unit = blockIdx.x, head = unit / (across * down), kv_head = head / (a.heads / a.kv_heads);
  const int64_t query0 = unit % across * kQueries, key0 = unit / across % down * kKeys;
  const int ty = threadIdx.x / kAcrossTile, tx = threadIdx.x % kAcrossTile;
  float sum[4] = {};
  for (int64_t batch = 0; batch < a.batch; ++batch) {
    const int64_t row = batch * a.tq + query0, at = (batch * a.tk + key0) * a.ld_kv + kv_head * a.d;
    __syncthreads();
    load_tile(s, kQueries, a.tq - query0, x.q + row * a.ld_q + head * a.d, a.ld_q, t.q);
    load_tile(s, kQueries, a.tq - query0, x.d_o + row * a.ld_o + head * a.d, a.ld_o, t.d_o);
    load_tile(s, kKeys, a.tk - key0, x.k + at, a.ld_kv, t.k);
    load_tile(s, kKeys, a.tk - key0, x.v + at, a.ld_kv, t.v);
    __syncthreads();
    const int64_t pair = batch * a.heads + head;
    weights_and_slopes(a, s, t, head, query0, key0, x.lse + pair * a.tq, x.delta + pair * a.tq);
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] += t.slopes[ty * kPairs + tx + 8 * j];
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int64_t query = query0 + ty, key = key0 + tx + 8 * j;
    if (query < a.tq && key < a.tk) dbias[(head * a.tk + key) * a.tq + query] = sum[j] / a.scale;
  }
}

size_t tile_bytes(const TileShape& s) {
  return 4 * (static_cast<size_t>(2 * kQueries + 2 * kKeys) * s.ld + kSlack + 2 * kQueries * kPairs);
}

}  // namespace

void attention_dbias(const Attention& a, const void* q, const void* k, const void* v, const float* lse,
                     const void* d_o, const float* delta, float* dbias, cudaStream_t stream) {
  if (a.tq * a.tk == 0) return;
  const TileShape s{static_cast<int>(a.d), tile_ld(a.d), a.tf32};
  by_type(a.act, [&](auto type) {
    using T = decltype(type);
    const auto x = backward_operands<T>(q, k, v, nullptr, d_o, lse, delta, nullptr, nullptr, nullptr);
    launch(dbias_kernel<T>, grid(ceil_div(a.tq, kQueries) * ceil_div(a.tk, kKeys) * a.heads),
           kAttentionThreads, tile_bytes(s), stream, a, s, x, dbias);
  });
}

void attention_delta(const Attention& a, const void* o, const void* d_o, float* delta, cudaStream_t stream) {
  if (a.batch * a.tq * a.heads == 0) return;
  by_type(a.act, [&](auto type) {
    using T = decltype(type);
    launch(delta_kernel<T>, grid(ceil_div(a.batch * a.tq * a.heads, 8)), 256, 0, stream, a, o, d_o, delta);
  });
}

void attention_simt_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                             const float* lse, const void* d_o, void* dq, void* dk, void* dv,
                             float* workspace, cudaStream_t stream) {
  if (a.batch == 0) return;
  attention_delta(a, o, d_o, workspace, stream);
  const TileShape s{static_cast<int>(a.d), tile_ld(a.d), a.tf32};
  const size_t bytes = tile_bytes(s);
  by_type(a.act, [&](auto type) {
    using T = decltype(type);
    const auto x = backward_operands<T>(q, k, v, o, d_o, lse, workspace, dq, dk, dv);
    by_head_dim(a, [&](auto columns) {
      constexpr int kColumns = columns();
      if (a.tk > 0)
        launch(keys_kernel<T, kColumns>, grid(ceil_div(a.tk, kKeys) * a.batch * a.kv_heads),
               kAttentionThreads, bytes, stream, a, s, x);
      if (a.tq > 0)
        launch(queries_kernel<T, kColumns>, grid(ceil_div(a.tq, kQueries) * a.batch * a.heads),
               kAttentionThreads, bytes, stream, a, s, x);
    });
  });
}

}  // namespace isobar::cuda
