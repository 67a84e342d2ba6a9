// Attention's backward on Hopper with keys as rows of the products: each warpgroup has 64 keys of its own.
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
  const int first[2] = {begin.x - first_column(), begin.y - first_column()};
#pragma unroll
  for (int i = 0; i < 32; ++i)
    if (i / 4 * 8 + i % 2 < first[i % 4 / 2]) scores[i] = -INFINITY;
}
// The first query that sees a key
__device__ inline int queries_begin(const Attention& a, int key) {
  if (key >= a.tk) return 0x7fffffff;
  return a.causal ? key - static_cast<int>(a.shift()) : 0;
}

// A number of each query of the thread's columns
__device__ inline void load_statistic(float2 (&of)[8], const unsigned char* statistic) {
#pragma unroll
  for (int f = 0; f < 8; ++f)
    of[f] = reinterpret_cast<const float2*>(statistic)[(8 * f + first_column()) / 2];
}
// Scores to weights
__device__ inline void weigh(float scale, float (&scores)[32], const float2 (&lse)[8]) {
#pragma unroll
  for (int i = 0; i < 32; ++i)
    scores[i] = power_of_two(fmaf(scores[i], scale, i % 2 ? -lse[i / 4].y : -lse[i / 4].x));
}
// dp to ds
__device__ inline void slope(const float (&weights)[32], float (&dp)[32], const float2 (&sums)[8]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) dp[i] = weights[i] * (dp[i] - (i % 2 ? sums[i / 4].y : sums[i / 4].x));
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
__device__ void sum_by_keys(const Attention& a, const Work& w, const Results& x, const Barriers<L>& barriers,
                            unsigned char* shared, int group) {
  constexpr int kD = L::kD;
  constexpr bool kHeld = L::kHeld;
  const int thread = static_cast<int>(threadIdx.x) % kGroup, own_keys = group * kTile;
  const uint32_t base = shared_address(shared), own_rows = static_cast<uint32_t>(own_keys * kRowBytes);
  const int key0 = w.key0 + own_keys;
  const int last_begins = queries_begin(a, key0 + kTile - 1);
  float dv[kD / 2] = {}, dk[kD / 2] = {}, scores[32], dp[32];
  uint32_t weights[4][4];
  wait_for_phase(barriers.keys(), 0);
  uint32_t held_k[kHeld ? kD / kInnerStep : 1][4], held_v[kHeld ? kD / kInnerStep : 1][4];
  if constexpr (kHeld) {
    load_operand(shared + L::kK + own_keys * kRowBytes, L::kKeys, held_k);
    load_operand(shared + L::kV + own_keys * kRowBytes, L::kKeys, held_v);
  }

  const auto begin_scores = [&](const Step<L>& s) {
    wait_for_phase(barriers.q_full(s.stage()), s.phase());
    if constexpr (kHeld)
      rows_times_rows<T, kD>(scores, held_k, base + s.q(), L::kQueries);
    else
      rows_times_rows<T, kD>(scores, base + L::kK + own_rows, L::kKeys, base + s.q(), L::kQueries);
  };
  const auto begin_dp = [&](const Step<L>& s) {
    wait_for_phase(barriers.do_full(s.stage()), s.phase());
    if constexpr (kHeld)
      rows_times_rows<T, kD>(dp, held_v, base + s.d_o(), L::kQueries);
    else
      rows_times_rows<T, kD>(dp, base + L::kV + own_rows, L::kKeys, base + s.d_o(), L::kQueries);
  };
  // p' and ds', and dv, whose products run under ds'
  const auto weigh_step = [&](const Step<L>& s) {
    float2 statistic[8];
    load_statistic(statistic, shared + s.lse());
    wait_for_products<1>(scores);
    if (s.query0() < last_begins) {
      const int row = key0 + first_row();
      hide_unseeing(scores, {queries_begin(a, row) - s.query0(), queries_begin(a, row + 8) - s.query0()});
    }
    weigh(x.scale, scores, statistic);
    round_operand<T>(scores, weights);
    begin_products(dv, weights);
#pragma unroll
    for (int k = 0; k < kTile / kInnerStep; ++k)
      multiply<T, kD, true>(dv, weights[k], rows_inner(base + s.d_o(), L::kQueries, k), true);
    commit_products();
    load_statistic(statistic, shared + s.sums());
    wait_for_products<1>(dp);
    slope(scores, dp, statistic);
    uint32_t slopes[4][4];
    round_operand<T>(dp, slopes);
    wait_for_phase(barriers.slot_free(s.slot_stage()), s.slot_phase() ^ 1);
    store_operand(slopes, base + s.slot() + own_rows);
    fence_for_products();
    __syncwarp();
    if (elected()) arrive(barriers.slot_full(s.slot_stage()));
    wait_for_products<0>(dv);
    named_barrier(1 + group, kGroup);
  };
  const auto begin_dk = [&](const Step<L>& s) {
    begin_products(dk);
#pragma unroll
    for (int k = 0; k < kTile / kInnerStep; ++k)
      multiply<T, kD, false, true>(dk, columns_inner(base + s.slot() + own_rows, kTile, k),
                                   rows_inner(base + s.q(), L::kQueries, k), true);
    commit_products();
  };
  // dq of all keys of the block is one warpgroup's work, by turns: what is added to memory is the narrowest
  // traffic.
  const auto has_turn = [&](const Step<L>& s) { return s.index % L::kConsumers == group; };
  const auto add_dq = [&](const Step<L>& s) {
    float dq[kD / 2];
    wait_for_phase(barriers.slot_full(s.slot_stage()), s.slot_phase());
    begin_products();
#pragma unroll
    for (int k = 0; k < L::kKeys / kInnerStep; ++k)
      multiply<T, kD, true, true>(dq, rows_inner(base + s.slot(), L::kKeys, k),
                                  rows_inner(base + L::kK, L::kKeys, k), k > 0);
    commit_products();
    wait_for_products<0>(dq, dk, scores);
    __syncwarp();
    if (elected()) arrive(barriers.slot_free(s.slot_stage()));
    float4* const to = x.dq + int64_t{s.dq_tile} * (kD / 8) * kGroup + thread;
#pragma unroll
    for (int f = 0; f < kD / 8; ++f)
      add_to_memory(&to[f * kGroup].x, dq[4 * f], dq[4 * f + 1], dq[4 * f + 2], dq[4 * f + 3]);
  };

  Step<L> now(a, w);
  if (now.left(w)) {
    begin_scores(now);
    begin_dp(now);
    weigh_step(now);
    // A step's products are queued before the last one's are awaited; dq is that of the step before, which
    // all warpgroups have likely finished.
    Step<L> before = now;
    for (Step<L> next = now; next.go_on(w), next.left(w); before = now, now = next) {
      begin_dk(now);
      begin_scores(next);
      if (now.index > 0 && has_turn(before)) add_dq(before);
      wait_for_products<1>(dk);
      release<L>(barriers, now);
      begin_dp(next);
      weigh_step(next);
    }
    begin_dk(now);
    wait_for_products<0>(dk);
    if (now.index > 0 && has_turn(before)) add_dq(before);
    if (has_turn(now)) add_dq(now);
  }
  store_sums<T, kD>(a, w, dv, 1.0f, x.dv, key0);
  store_sums<T, kD>(a, w, dk, a.scale, x.dk, key0);
}

}  // namespace isobar::cuda::hopper
