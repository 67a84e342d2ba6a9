// Attention's backward on Hopper for heads of 192 columns: three warpgroups share 96 keys and 64 queries a
// tile. Each has 32 keys of scores, with queries as rows, and 64 columns of every result; dv and dk are
// summed transposed, so that their 96 keys need not be whole tiles of rows.
#pragma once
#include "model/backend/cuda/kernels/hopper/backward_parts.cuh"

namespace isobar::cuda::hopper {

constexpr int kOwnKeys = 32;  // of a warpgroup's scores

/// scores [64 queries, 32 keys] = x y' over the head's columns
template <class T, class L>
__device__ inline void queries_times_keys(float (&scores)[kOwnKeys / 2], uint32_t x, uint32_t y) {
  begin_products();
#pragma unroll
  for (int step = 0; step < L::kD / kInnerStep; ++step)
    multiply<T, kOwnKeys, false, false>(scores, columns_inner(x, L::kQueries, step),
                                        columns_inner(y, L::kKeys, step), step > 0);
  commit_products();
}
/// sums [64 columns of x, 96 keys] += x' y over a tile's queries
template <class T, class L>
__device__ inline void add_columns_times_keys(float (&sums)[L::kKeys / 2], uint32_t x, uint32_t y) {
#pragma unroll
  for (int k = 0; k < L::kQueries / kInnerStep; ++k)
    multiply<T, L::kKeys, true, true>(sums, rows_inner(x, L::kQueries, k), rows_inner(y, kTile, k), true);
}

// [64 queries, 32 keys] in 16 bits, to the columns from `key` on of panels of shared memory
template <class T>
__device__ inline void store_rounded(const float (&x)[kOwnKeys / 2], unsigned char* panels, int key) {
  unsigned char* const panel = panels + key / kPanelColumns * kSlotBytes;
#pragma unroll
  for (int i = 0; i < kOwnKeys / 2; i += 2)
    *reinterpret_cast<uint32_t*>(panel + byte_in_panel(first_row() + i % 4 / 2 * 8,
                                                       key % kPanelColumns + i / 4 * 8 + first_column())) =
        two<T>(x[i], x[i + 1]);
}

template <class T, class L>
__device__ void sum_by_columns(const Attention& a, const Work& w, const Results& x,
                               const Barriers<L>& barriers, unsigned char* shared, int group) {
  static_assert(L::kPanels == L::kConsumers && L::kKeys == L::kConsumers * kOwnKeys && L::kQueries == kTile);
  constexpr int kAll = L::kConsumers * kGroup;
  const int thread = static_cast<int>(threadIdx.x) % kGroup, own_key = group * kOwnKeys;
  const uint32_t base = shared_address(shared), own_rows = static_cast<uint32_t>(own_key * kRowBytes);
  const uint32_t keys = base + L::kK, values = base + L::kV;
  const uint32_t own_panel = static_cast<uint32_t>(group * kTile * kRowBytes);  // of q and do
  const uint32_t slopes = base + L::kSlots, weights = slopes + 2 * kSlotBytes;
  float dv[L::kKeys / 2] = {}, dk[L::kKeys / 2] = {};
  wait_for_phase(barriers.keys(), 0);
  uint32_t step = 0;
  for (int head = w.first_head; head < w.first_head + w.heads; ++head)
    for (int tile = w.tile0; tile < w.tiles; ++tile, ++step) {
      const int stage = static_cast<int>(step % L::kStages),
                do_stage = static_cast<int>(step % L::kOutputStages);
      const uint32_t q = base + static_cast<uint32_t>(L::kQ + stage * L::kQueryBytes);
      const uint32_t d_o = base + static_cast<uint32_t>(L::kDo + do_stage * L::kQueryBytes);
      const int query0 = tile * L::kQueries;
      float scores[kOwnKeys / 2], dp[kOwnKeys / 2];
      wait_for_phase(barriers.q_full(stage), step / L::kStages % 2);
      queries_times_keys<T, L>(scores, q, keys + own_rows);
      wait_for_phase(barriers.do_full(do_stage), step / L::kOutputStages % 2);
      queries_times_keys<T, L>(dp, d_o, values + own_rows);
      const auto* statistics =
          reinterpret_cast<const float2*>(shared + L::kStatistics + stage * L::kStatisticsBytes) +
          first_row();
      const float2 of_row[2] = {statistics[0], statistics[8]};
      wait_for_products<1>(scores);
      if (w.key0 + own_key + kOwnKeys > keys_end(a, query0)) {
        const int first_key = w.key0 + own_key + first_column(), query = query0 + first_row();
        const int end[2] = {keys_end(a, query), keys_end(a, query + 8)};
#pragma unroll
        for (int i = 0; i < kOwnKeys / 2; ++i)
          if (first_key + i / 4 * 8 + i % 2 >= end[i % 4 / 2]) scores[i] = -INFINITY;
      }
      const float scale = a.scale * kLog2E;
#pragma unroll
      for (int i = 0; i < kOwnKeys / 2; ++i)
        scores[i] = power_of_two(fmaf(scores[i], scale, -of_row[i % 4 / 2].x));
      wait_for_products<0>(dp);
#pragma unroll
      for (int i = 0; i < kOwnKeys / 2; ++i) dp[i] = scores[i] * (dp[i] - of_row[i % 4 / 2].y);
      named_barrier(1, kAll);  // the products of the step before have read the slots
      store_rounded<T>(scores, shared + L::kSlots + 2 * kSlotBytes, own_key);
      store_rounded<T>(dp, shared + L::kSlots, own_key);
      fence_for_products();
      named_barrier(2, kAll);

      float dq[kTile / 2];
      begin_products(dv, dk);
      add_columns_times_keys<T, L>(dv, d_o + own_panel, weights);
      add_columns_times_keys<T, L>(dk, q + own_panel, slopes);
      commit_products();
      begin_products();
#pragma unroll
      for (int k = 0; k < L::kKeys / kInnerStep; ++k)
        multiply<T, kTile, false, true>(
            dq, columns_inner(slopes, kTile, k),
            rows_inner(keys + static_cast<uint32_t>(group * L::kKeys * kRowBytes), L::kKeys, k), k > 0);
      commit_products();
      wait_for_products<1>(dv, dk);
      __syncwarp();
      if (thread % 32 == 0) {
        arrive(barriers.q_free(stage));
        arrive(barriers.do_free(do_stage));
      }
      wait_for_products<0>(dq);
      float4* const to = x.dq +
                         (((w.sample * a.heads + head) * padded(a.tq) + query0) / kTile * (L::kD / 8) +
                          group * (kTile / 8)) *
                             kGroup +
                         thread;
#pragma unroll
      for (int f = 0; f < kTile / 8; ++f)
        add_to_memory(&to[f * kGroup].x, dq[4 * f], dq[4 * f + 1], dq[4 * f + 2], dq[4 * f + 3]);
    }
  // Rows of the sums are columns of the head.
  const int64_t first = w.sample * a.tk * a.ld_kv + w.key_head * a.d + group * kPanelColumns + first_row();
  T* const to_dv = static_cast<T*>(x.dv) + first;
  T* const to_dk = static_cast<T*>(x.dk) + first;
#pragma unroll
  for (int i = 0; i < L::kKeys / 2; ++i) {
    const int64_t key = w.key0 + i / 4 * 8 + first_column() + i % 2;
    if (key >= a.tk) continue;
    to_dv[key * a.ld_kv + i % 4 / 2 * 8] = as<T>(dv[i]);
    to_dk[key * a.ld_kv + i % 4 / 2 * 8] = as<T>(dk[i] * a.scale);
  }
}

}  // namespace isobar::cuda::hopper
