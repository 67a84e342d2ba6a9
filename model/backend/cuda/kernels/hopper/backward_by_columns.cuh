// Attention's backward on Hopper for wide heads: a warpgroup for each 64 columns. All share a tile of 64
// queries and the block's keys; each has its share of the keys' scores, with queries as rows, and its 64
// columns of every result. dv and dk are summed transposed, so that their keys need not be whole tiles of
// rows.
#pragma once
#include "model/backend/cuda/kernels/hopper/backward_parts.cuh"

namespace isobar::cuda::hopper {

/// scores [64 queries, the warpgroup's keys] = x y' over the head's columns
template <class T, class L>
__device__ inline void queries_times_keys(float (&scores)[L::kOwnKeys / 2], uint32_t x, uint32_t y) {
  begin_products();
#pragma unroll
  for (int step = 0; step < L::kD / kInnerStep; ++step)
    multiply<T, L::kOwnKeys, false, false>(scores, columns_inner(x, L::kQueries, step),
                                           columns_inner(y, L::kKeys, step), step > 0);
  commit_products();
}
/// sums [64 columns of x, keys] += x' y' over a tile's queries, y a slot
template <class T, class L>
__device__ inline void add_columns_times_keys(float (&sums)[L::kKeys / 2], uint32_t x, uint32_t y) {
#pragma unroll
  for (int k = 0; k < L::kQueries / kInnerStep; ++k)
    multiply<T, L::kKeys, true, false>(sums, rows_inner(x, L::kQueries, k), columns_inner(y, L::kKeys, k),
                                       true);
}

// [64 queries, the warpgroup's keys] in 16 bits, to the rows from `key` on of a slot
template <class T, int kN>
__device__ inline void store_rounded(const float (&x)[kN], uint32_t slot, int key) {
  uint32_t words[kN / 8][4];
  round_operand<T>(x, words);
  store_transposed(words, slot, key);
}

template <class T, class L>
__device__ void sum_by_columns(const Attention& a, const Work& w, const Results& x,
                               const Barriers<L>& barriers, unsigned char* shared, int group) {
  static_assert(L::kPanels == L::kConsumers && L::kQueries == kTile);
  constexpr int kAll = L::kConsumers * kGroup, kOwn = L::kOwnKeys;
  const int thread = static_cast<int>(threadIdx.x) % kGroup, own_key = group * kOwn;
  const uint32_t base = shared_address(shared), own_rows = static_cast<uint32_t>(own_key * kRowBytes);
  const uint32_t own_panel = static_cast<uint32_t>(group * kTile * kRowBytes);  // of q and do
  float dv[L::kKeys / 2] = {}, dk[L::kKeys / 2] = {}, dq[kTile / 2], scores[kOwn / 2], dp[kOwn / 2];

  // of the thread's two queries
  float lse_of[2], sum_of[2];
  const auto load_two = [&](float(&to)[2], int statistic) {
    const auto* const of = reinterpret_cast<const float*>(shared + statistic) + first_row();
    to[0] = of[0];
    to[1] = of[8];
  };
  const auto begin_scores = [&](const Step<L>& s, bool here) {
    if (!here) {
      wait_for_phase(barriers.q_full(s.stage()), s.phase());
      load_two(lse_of, s.lse());
    }
    queries_times_keys<T, L>(scores, base + s.q(), base + L::kK + own_rows);
  };
  const auto begin_dp = [&](const Step<L>& s, bool here) {
    if (!here) {
      wait_for_phase(barriers.do_full(s.stage()), s.phase());
      load_two(sum_of, s.sums());
    }
    queries_times_keys<T, L>(dp, base + s.d_o(), base + L::kV + own_rows);
  };
  const auto slopes = [&](const Step<L>& s) { return base + static_cast<uint32_t>(s.slot()); };
  const auto weights = [&](const Step<L>& s) { return slopes(s) + L::kSlotBytes; };
  // p' and ds' of a step to its slots, which the products of the step before the last have read: their end,
  // which each warpgroup awaits before it comes here for the step after them, is behind that step's barrier.
  const auto share_weights = [&](const Step<L>& s) {
    wait_for_products<1>(scores);
    if (w.key0 + own_key + kOwn > keys_end(a, s.query0())) {
      const int first_key = w.key0 + own_key + first_column(), query = s.query0() + first_row();
      const int left[2] = {keys_end(a, query) - first_key, keys_end(a, query + 8) - first_key};
#pragma unroll
      for (int i = 0; i < kOwn / 2; ++i)
        if (i / 4 * 8 + i % 2 >= left[i % 4 / 2]) scores[i] = -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < kOwn / 2; ++i) scores[i] = power_of_two(fmaf(scores[i], x.scale, -lse_of[i % 4 / 2]));
    store_rounded<T>(scores, weights(s), own_key);
    wait_for_products<0>(dp);
#pragma unroll
    for (int i = 0; i < kOwn / 2; ++i) dp[i] = scores[i] * (dp[i] - sum_of[i % 4 / 2]);
    store_rounded<T>(dp, slopes(s), own_key);
    fence_for_products();
    named_barrier(1, kAll);
  };
  const auto begin_dq = [&](const Step<L>& s) {
    begin_products();
#pragma unroll
    for (int k = 0; k < L::kKeys / kInnerStep; ++k)
      multiply<T, kTile, true, true>(
          dq, rows_inner(slopes(s), L::kKeys, k),
          rows_inner(base + L::kK + static_cast<uint32_t>(group * L::kKeys * kRowBytes), L::kKeys, k), k > 0);
    commit_products();
  };
  const auto begin_sums = [&](const Step<L>& s) {
    begin_products(dv, dk);
    add_columns_times_keys<T, L>(dv, base + s.d_o() + own_panel, weights(s));
    add_columns_times_keys<T, L>(dk, base + s.q() + own_panel, slopes(s));
    commit_products();
  };
  // The last columns first: the next step's scores take their registers. The last panel may be narrower.
  const auto add_dq = [&](const Step<L>& s) {
    float4* const to = x.dq + (int64_t{s.dq_tile} * (L::kD / 8) + group * (kTile / 8)) * kGroup + thread;
#pragma unroll
    for (int f = kTile / 8 - 1; f >= 0; --f)
      if (L::kD % kPanelColumns == 0 || group * kPanelColumns + f * 8 < L::kD)
        add_to_memory(&to[f * kGroup].x, dq[4 * f], dq[4 * f + 1], dq[4 * f + 2], dq[4 * f + 3]);
  };

  wait_for_phase(barriers.keys(), 0);
  Step<L> now(a, w);
  if (now.left(w)) {
    begin_scores(now, false);
    begin_dp(now, false);
    share_weights(now);
    // The products of a step run on while dq is added to memory, and the next step's follow them. A look at a
    // barrier would queue behind the additions, so the first comes before them.
    for (Step<L> next = now; next.go_on(w), next.left(w); now = next) {
      begin_dq(now);
      begin_sums(now);
      const bool q_here = phase_over(barriers.q_full(next.stage()), next.phase()),
                 do_here = phase_over(barriers.do_full(next.stage()), next.phase());
      if (q_here) load_two(lse_of, next.lse());
      if (do_here) load_two(sum_of, next.sums());
      wait_for_products<1>(dq);
      add_dq(now);
      begin_scores(next, q_here);
      begin_dp(next, do_here);
      wait_for_products<2>(dv, dk);
      release<L>(barriers, now);
      share_weights(next);
    }
    begin_dq(now);
    begin_sums(now);
    wait_for_products<0>(dv, dk, dq);
    add_dq(now);
  }
  // Rows of the sums are columns of the head.
  const int64_t first = w.sample * a.tk * a.ld_kv + w.key_head * a.d + group * kPanelColumns + first_row();
  T* const to_dv = static_cast<T*>(x.dv) + first;
  T* const to_dk = static_cast<T*>(x.dk) + first;
#pragma unroll
  for (int i = 0; i < L::kKeys / 2; ++i) {
    const int64_t key = w.key0 + i / 4 * 8 + first_column() + i % 2;
    if (key >= a.tk) continue;
    if (L::kD % kPanelColumns != 0 && group * kPanelColumns + first_row() + i % 4 / 2 * 8 >= L::kD) continue;
    to_dv[key * a.ld_kv + i % 4 / 2 * 8] = as<T>(dv[i]);
    to_dk[key * a.ld_kv + i % 4 / 2 * 8] = as<T>(dk[i] * a.scale);
  }
}

}  // namespace isobar::cuda::hopper
