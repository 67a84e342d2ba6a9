// Attention's backward on Hopper with keys as rows of the products: each warpgroup has keys of its own, or
// two share them (attention_backward.cu).
#pragma once
#include "model/backend/cuda/kernels/hopper/backward_parts.cuh"

namespace isobar::cuda::hopper {

/// scores [64 keys, 64 queries] = x y' over the head's columns, of panels with x_rows and y_rows rows
template <class T, int kD>
__device__ inline void rows_times_rows(float (&scores)[32], uint32_t x, int x_rows, uint32_t y, int y_rows) {
  begin_products();
#pragma unroll
  for (int step = 0; step < kD / kInnerStep; ++step)
    multiply<T, kTile, false, false>(scores, columns_inner(x, x_rows, step), columns_inner(y, y_rows, step),
                                     step > 0);
  commit_products();
}

/// The same with x in registers
template <class T, int kD>
__device__ inline void rows_times_rows(float (&scores)[32], uint32_t (&x)[kD / kInnerStep][4], uint32_t y,
                                       int y_rows) {
  begin_products(x);
#pragma unroll
  for (int step = 0; step < kD / kInnerStep; ++step)
    multiply<T, kTile, false>(scores, x[step], columns_inner(y, y_rows, step), step > 0);
  commit_products();
}
// 64 rows of panels with `rows` rows, as such an operand
template <int kSteps>
__device__ inline void load_operand(const unsigned char* panels, int rows, uint32_t (&words)[kSteps][4]) {
  constexpr int kPanelSteps = kPanelColumns / kInnerStep;
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[k][i] = *reinterpret_cast<const uint32_t*>(
          panels + k / kPanelSteps * rows * kRowBytes +
          byte_in_panel(first_row() + i % 2 * 8, k % kPanelSteps * kInnerStep + i / 2 * 8 + first_column()));
}

// Hides the queries before `begin` from the thread's two keys
__device__ inline void hide_unseeing(float (&scores)[32], int2 begin) {
#pragma unroll
  for (int i = 0; i < 32; ++i)
    if (i / 4 * 8 + first_column() + i % 2 < (i % 4 < 2 ? begin.x : begin.y)) scores[i] = -INFINITY;
}
// The first query that sees a key
__device__ inline int queries_begin(const Attention& a, int key) {
  if (key >= a.tk) return 0x7fffffff;
  return a.causal ? key - static_cast<int>(a.shift()) : 0;
}

// Scores to weights
__device__ inline void weigh(const Attention& a, float (&scores)[32], const float4* statistics) {
  const float scale = a.scale * kLog2E;
#pragma unroll
  for (int f = 0; f < 8; ++f) {
    const float4 two_queries = statistics[(8 * f + first_column()) / 2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      scores[4 * f + i] =
          power_of_two(fmaf(scores[4 * f + i], scale, i % 2 ? -two_queries.z : -two_queries.x));
  }
}
// dp to ds
__device__ inline void slope(const float (&weights)[32], float (&dp)[32], const float4* statistics) {
#pragma unroll
  for (int f = 0; f < 8; ++f) {
    const float4 two_queries = statistics[(8 * f + first_column()) / 2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      dp[4 * f + i] = weights[4 * f + i] * (dp[4 * f + i] - (i % 2 ? two_queries.w : two_queries.y));
  }
}

template <class T, int kD>
__device__ inline void store_sums(const Attention& a, const Work& w, const float (&sums)[kD / 2], float scale,
                                  void* to, int64_t key0) {
  T* const row0 = static_cast<T*>(to) + w.sample * a.tk * a.ld_kv + w.key_head * a.d + first_column();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t key = key0 + first_row() + 8 * half;
    if (key >= a.tk) continue;
#pragma unroll
    for (int f = 0; f < kD / 8; ++f)
      *reinterpret_cast<uint32_t*>(row0 + key * a.ld_kv + 8 * f) =
          two<T>(sums[4 * f + 2 * half] * scale, sums[4 * f + 2 * half + 1] * scale);
  }
}

template <class T, class L>
__device__ void sum_over_queries(const Attention& a, const Work& w, const Results& x,
                                 const Barriers<L>& barriers, unsigned char* shared, int group) {
  constexpr int kD = L::kD, kConsumers = L::kConsumers;
  constexpr bool kShared = L::kShared, kHeld = L::kHeld;
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  const uint32_t base = shared_address(shared);
  const int own_keys = kShared ? 0 : group * kTile, own_queries = kShared ? group * kTile : 0;
  const uint32_t keys = base + static_cast<uint32_t>(L::kK + own_keys * kRowBytes);
  const uint32_t values = base + static_cast<uint32_t>(L::kV + own_keys * kRowBytes);
  const int key0 = w.key0 + own_keys, row = key0 + first_row();
  const int2 row_begin{queries_begin(a, row), queries_begin(a, row + 8)};
  const int last_begins = queries_begin(a, key0 + kTile - 1);
  float sum_0[kD / 2] = {};                // dv; shared: dv or dk
  float sum_1[kShared ? 1 : kD / 2] = {};  // dk
  wait_for_phase(barriers.keys(), 0);
  uint32_t held_k[kHeld ? kD / kInnerStep : 1][4], held_v[kHeld ? kD / kInnerStep : 1][4];
  if constexpr (kHeld) {
    load_operand(shared + L::kK + own_keys * kRowBytes, L::kKeys, held_k);
    load_operand(shared + L::kV + own_keys * kRowBytes, L::kKeys, held_v);
  }
  uint32_t step = 0;
  for (int head = w.first_head; head < w.first_head + w.heads; ++head)
    for (int tile = w.tile0; tile < w.tiles; ++tile, ++step) {
      const int stage = static_cast<int>(step % L::kStages),
                do_stage = static_cast<int>(step % L::kOutputStages);
      const uint32_t q = base + static_cast<uint32_t>(L::kQ + stage * L::kQueryBytes);
      const uint32_t d_o = base + static_cast<uint32_t>(L::kDo + do_stage * L::kQueryBytes);
      const uint32_t own_rows = static_cast<uint32_t>(own_queries * kRowBytes);
      const int query0 = tile * L::kQueries + own_queries;
      const auto* statistics =
          reinterpret_cast<const float4*>(shared + L::kStatistics + stage * L::kStatisticsBytes) +
          own_queries / 2;
      float scores[32], dp[32];
      wait_for_phase(barriers.q_full(stage), step / L::kStages % 2);
      if constexpr (kHeld)
        rows_times_rows<T, kD>(scores, held_k, q, L::kQueries);
      else
        rows_times_rows<T, kD>(scores, keys, L::kKeys, q + own_rows, L::kQueries);
      wait_for_phase(barriers.do_full(do_stage), step / L::kOutputStages % 2);
      if constexpr (kHeld)
        rows_times_rows<T, kD>(dp, held_v, d_o, L::kQueries);
      else
        rows_times_rows<T, kD>(dp, values, L::kKeys, d_o + own_rows, L::kQueries);
      wait_for_products<1>(scores);
      if (query0 < last_begins) hide_unseeing(scores, {row_begin.x - query0, row_begin.y - query0});
      weigh(a, scores, statistics);
      uint32_t weights[4][4], slopes[4][4];
      round_operand<T>(scores, weights);

      float dq[kD / 2];
      uint32_t slot;  // of ds'
      if constexpr (kShared) {
        wait_for_products<0>(dp);
        slope(scores, dp, statistics);
        round_operand<T>(dp, slopes);
        named_barrier(1, kConsumers * kGroup);  // the products of the step before have read the slots
        store_operand(slopes, shared + L::kSlots + group * kSlotBytes);
        store_operand(weights, shared + L::kSlots + (kConsumers + group) * kSlotBytes);
        fence_for_products();
        named_barrier(2, kConsumers * kGroup);
        const uint32_t slots = base + L::kSlots;
        slot = slots + static_cast<uint32_t>(group * kSlotBytes);
        const uint32_t left = group == 0 ? slots + kConsumers * kSlotBytes : slots,
                       right = group == 0 ? d_o : q;
        begin_products(sum_0);
#pragma unroll
        for (int k = 0; k < L::kQueries / kInnerStep; ++k)
          multiply<T, kD, false, true>(sum_0, columns_inner(left, kTile, k),
                                       rows_inner(right, L::kQueries, k), true);
        commit_products();
      } else {
        begin_products(sum_0, weights);
#pragma unroll
        for (int k = 0; k < kTile / kInnerStep; ++k)
          multiply<T, kD, true>(sum_0, weights[k], rows_inner(d_o, L::kQueries, k), true);
        commit_products();
        wait_for_products<1>(dp);
        slope(scores, dp, statistics);
        round_operand<T>(dp, slopes);
        // Two slots by turns: the barrier of the next step ends the use of this one.
        const int at = L::kSlots + (2 * group + static_cast<int>(step % 2)) * kSlotBytes;
        store_operand(slopes, shared + at);
        fence_for_products();
        begin_products(sum_1, slopes);
#pragma unroll
        for (int k = 0; k < kTile / kInnerStep; ++k)
          multiply<T, kD, true>(sum_1, slopes[k], rows_inner(q, L::kQueries, k), true);
        commit_products();
        slot = base + static_cast<uint32_t>(at);
        named_barrier(1 + group, kGroup);
      }
      begin_products();
#pragma unroll
      for (int k = 0; k < kTile / kInnerStep; ++k)
        multiply<T, kD, true, true>(dq, rows_inner(slot, kTile, k), rows_inner(keys, L::kKeys, k), k > 0);
      commit_products();
      wait_for_products<1>(sum_0, sum_1);
      __syncwarp();
      if (thread % 32 == 0) {
        arrive(barriers.q_free(stage));
        arrive(barriers.do_free(do_stage));
      }
      wait_for_products<0>(dq);
      float4* const to =
          x.dq + ((w.sample * a.heads + head) * padded(a.tq) + query0) / kTile * (kD / 8) * kGroup + thread;
#pragma unroll
      for (int f = 0; f < kD / 8; ++f)
        add_to_memory(&to[f * kGroup].x, dq[4 * f], dq[4 * f + 1], dq[4 * f + 2], dq[4 * f + 3]);
    }
  if constexpr (kShared) {
    store_sums<T, kD>(a, w, sum_0, group == 0 ? 1.0f : a.scale, group == 0 ? x.dv : x.dk, key0);
  } else {
    store_sums<T, kD>(a, w, sum_0, 1.0f, x.dv, key0);
    store_sums<T, kD>(a, w, sum_1, a.scale, x.dk, key0);
  }
}

}  // namespace isobar::cuda::hopper
