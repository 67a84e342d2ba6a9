// Attention backward on tensor cores, with forward recomputed: dk and dv by blocks that own keys and iterate
// over queries, dq by blocks that own queries and iterate over keys. Seven products instead of the five that
// atomics would allow, but every sum has a fixed order and scratch is one number a row.
//
//   p = exp(q k scale - lse), dp = do v, ds = p (dp - rowsum(do o)) scale;  dv = p' do, dk = ds' q, dq = ds k
//
// Both kinds of block are one kernel: s and dp are products of owned and streamed rows (transposed for key
// blocks), and the results are sums of products of p and ds with streamed rows.
#include <cmath>

#include "model/backend/cuda/kernels/attention/attention_mma.cuh"

namespace isobar::cuda {
namespace {

constexpr int kWarps = 8;
// Rows that a block owns: limited by registers and A100's 163 KB of shared memory.
template <class T, int kD>
constexpr int kOwned = kD > 192 || (sizeof(T) == 4 && kD > 64) ? 32 : 64;
template <class T>
constexpr int kLdWeights = mma_ld<T>(kStreamed);

template <class T, int kD, bool kKeys>
size_t shared_bytes(int columns) {
  return sizeof(T) *
         (2 * (kOwned<T, kD> + kStreamed) * static_cast<size_t>(mma_ld<T>(columns)) +
          (kKeys ? 2 : 1) * kOwned<T, kD> * kLdWeights<T>)+sizeof(float) *
         2 * 64;
}

// A warp's results: 16 rows from row0 on, fragments n0, n0 + step …
template <class T, int kFragments>
__device__ void store_rows(const MmaShape& s, const float (&x)[kFragments][4], int row0, int64_t valid,
                           int n0, int step, T* to, int64_t ld) {
#pragma unroll
  for (int f = 0; f < kFragments; ++f)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row0 + row_in_fragment(i), c = n0 + f * step + column_in_fragment(i);
      if (r < valid && c < s.d) to[r * ld + c] = as<T>(x[f][i]);
    }
}

template <class T, int kD, bool kKeys>
__global__ void __launch_bounds__(32 * kWarps, 1)
    mma_backward_kernel(Attention a, MmaShape s, BackwardOperands<T> x) {
  constexpr int kRows = kOwned<T, kD>, kDown = kRows / 16, kAcross = kWarps / kDown;  // warps
  constexpr int kScores = kStreamed / kFragment / kAcross, kOut = kD / kFragment / kAcross;
  constexpr int kStep = kFragment * kAcross;
  const int ld = mma_ld<T>(s.columns);
  T* const own_0 = dynamic_shared<T>();               // k or q
  T* const own_1 = own_0 + kRows * ld;                // v or do
  T* const past_0 = own_1 + kRows * ld;               // q or k
  T* const past_1 = past_0 + kStreamed * ld;          // do or v
  T* const slopes = past_1 + kStreamed * ld;          // ds [kRows][kLdWeights]
  T* const weights = slopes + kRows * kLdWeights<T>;  // p, of keys
  float* const lse = reinterpret_cast<float*>(kKeys ? weights + kRows * kLdWeights<T> : weights);
  float* const delta = lse + 64;  // of the queries of a tile, both

  const int64_t owned = kKeys ? a.tk : a.tq, passing = kKeys ? a.tq : a.tk;
  const int64_t own_heads = kKeys ? a.kv_heads : a.heads, group = a.heads / a.kv_heads;
  const int tiles = static_cast<int>((owned + kRows - 1) / kRows);
  const int64_t pair = blockIdx.x / tiles, batch = pair / own_heads, own_head = pair - batch * own_heads;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x % tiles) * kRows, valid = owned - first_row;
  const int64_t row = batch * owned + first_row;
  const int warp = static_cast<int>(threadIdx.x) / 32, row0 = warp / kAcross * 16;
  const int n0 = warp % kAcross * kFragment;
  const auto load_statistics = [&](int64_t head, int64_t query0, int rows) {
    for (int i = static_cast<int>(threadIdx.x); i < rows; i += 32 * kWarps) {
      const bool in = query0 + i < a.tq;
      const int64_t at = (batch * a.heads + head) * a.tq + query0 + i;
      lse[i] = in ? x.lse[at] : 0.0f;
      delta[i] = in ? x.delta[at] : 0.0f;
    }
  };
  if constexpr (kKeys) {
    load_mma_tile(s, kRows, valid, x.k + row * a.ld_kv + own_head * a.d, a.ld_kv, own_0);
    load_mma_tile(s, kRows, valid, x.v + row * a.ld_kv + own_head * a.d, a.ld_kv, own_1);
  } else {
    load_mma_tile(s, kRows, valid, x.q + row * a.ld_q + own_head * a.d, a.ld_q, own_0);
    load_mma_tile(s, kRows, valid, x.d_o + row * a.ld_o + own_head * a.d, a.ld_o, own_1);
    load_statistics(own_head, first_row, kRows);
  }
  // Which of those that pass are seen: queries from the first on, keys up to the last
  const int64_t last = (first_row + kRows < owned ? first_row + kRows : owned) - 1;
  const int64_t begin = (kKeys ? a.first_query(first_row) : a.first_key(first_row)) / kStreamed * kStreamed;
  const int64_t end = kKeys ? a.end_of_queries(last) : a.end_of_keys(last);
  float sum_0[kOut][4] = {};              // dk or dq
  float sum_1[kKeys ? kOut : 1][4] = {};  // dv
  const int64_t heads = kKeys ? group : 1, head0 = kKeys ? own_head * group : own_head;
  for (int64_t head = head0; head < head0 + heads; ++head)
    for (int64_t past0 = begin; past0 < end; past0 += kStreamed) {
      const int64_t there = batch * passing + past0, left = passing - past0;
      __syncthreads();  // the tiles before are done with
      if constexpr (kKeys) {
        load_mma_tile(s, kStreamed, left, x.q + there * a.ld_q + head * a.d, a.ld_q, past_0);
        load_mma_tile(s, kStreamed, left, x.d_o + there * a.ld_o + head * a.d, a.ld_o, past_1);
        load_statistics(head, past0, kStreamed);
      } else {
        load_mma_tile(s, kStreamed, left, x.k + there * a.ld_kv + head / group * a.d, a.ld_kv, past_0);
        load_mma_tile(s, kStreamed, left, x.v + there * a.ld_kv + head / group * a.d, a.ld_kv, past_1);
      }
      __syncthreads();
      float score[kScores][4] = {}, dp[kScores][4] = {};
      rows_times_rows(score, own_0, past_0, ld, row0, n0, kStep, s.columns);
      rows_times_rows(dp, own_1, past_1, ld, row0, n0, kStep, s.columns);
#pragma unroll
      for (int f = 0; f < kScores; ++f)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int r = row0 + row_in_fragment(i), c = n0 + f * kStep + column_in_fragment(i);
          const int64_t query = kKeys ? past0 + c : first_row + r, key = kKeys ? first_row + r : past0 + c;
          const int at = kKeys ? c : r;
          const float p = sees(a, query, key)
                              ? expf(fmaf(score[f][i] + more_of(a, head, query, key), a.scale, -lse[at]))
                              : 0.0f;
          slopes[r * kLdWeights<T> + c] = operand<T>(p * (dp[f][i] - delta[at]) * a.scale);
          if constexpr (kKeys) weights[r * kLdWeights<T> + c] = operand<T>(p);
        }
      __syncthreads();
      rows_times_columns(sum_0, slopes, kLdWeights<T>, row0, past_0, ld, n0, kStep, s.columns);
      if constexpr (kKeys)
        rows_times_columns(sum_1, weights, kLdWeights<T>, row0, past_1, ld, n0, kStep, s.columns);
    }
  if constexpr (kKeys) {
    store_rows(s, sum_0, row0, valid, n0, kStep, x.dk + row * a.ld_kv + own_head * a.d, a.ld_kv);
    store_rows(s, sum_1, row0, valid, n0, kStep, x.dv + row * a.ld_kv + own_head * a.d, a.ld_kv);
  } else {
    store_rows(s, sum_0, row0, valid, n0, kStep, x.dq + row * a.ld_q + own_head * a.d, a.ld_q);
  }
}

}  // namespace

void attention_mma_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                            const float* lse, const void* d_o, void* dq, void* dk, void* dv, float* workspace,
                            cudaStream_t stream) {
  if (a.batch == 0) return;
  const MmaShape s = mma_shape(a, {q, k, v, d_o});
  attention_delta(a, o, d_o, workspace, stream);
  by_type(a.act, [&](auto type) {
    using T = decltype(type);
    const auto x = backward_operands<T>(q, k, v, o, d_o, lse, workspace, dq, dk, dv);
    by_mma_width(a, [&](auto width) {
      constexpr int kD = width();
      const auto blocks = [&](int64_t rows) { return ceil_div(rows, kOwned<T, kD>) * a.batch; };
      if (a.tk > 0)
        launch(mma_backward_kernel<T, kD, true>, grid(blocks(a.tk) * a.kv_heads), 32 * kWarps,
               shared_bytes<T, kD, true>(s.columns), stream, a, s, x);
      if (a.tq > 0)
        launch(mma_backward_kernel<T, kD, false>, grid(blocks(a.tq) * a.heads), 32 * kWarps,
               shared_bytes<T, kD, false>(s.columns), stream, a, s, x);
    });
  });
}

}  // namespace isobar::cuda
