// Attention backward on Hopper, with scores recomputed:
//
//   p = exp(q k scale - lse), dp = do v, ds = p (dp - rowsum(do o));  dv = p' do, dk = ds' q scale, dq = ds k
//   scale
//
// A block owns keys, keeps their dk and dv in registers, and iterates over tiles of queries. One warpgroup
// loads tiles (TMA); two compute, each on 64 keys x 64 queries with keys as rows, so that p' and ds' are in
// registers where the products dv and dk want them. Two divisions of the work:
//
//   heads up to 96    a warpgroup has 64 keys of its own and all of their sums: the two never wait for each
//   other,
//                     and the exponentials of one hide under the products of the other
//   wider             both share 64 keys and split 128 queries: they exchange p' and ds' in shared memory;
//   one sums
//                     dv, the other dk
//
// dq is summed in memory by atomic adds, in f32 and in the order of the accumulators' registers, 16 bytes a
// thread; a last pass sorts, scales and rounds it.
#include <cmath>

#include "model/backend/cuda/kernels/hopper/attention.h"
#include "model/backend/cuda/kernels/hopper/fragments.cuh"

namespace isobar::cuda {
namespace {

using namespace hopper;

constexpr int kPaddedQueries = 128;            // queries of the workspace: whole tiles of this size
constexpr int kSlotBytes = kTile * kRowBytes;  // of p' or ds' of one warpgroup

template <int kColumns, HopperDivision kDivision>
struct Layout {
  static constexpr int kD = kColumns;
  static constexpr bool kShared = kDivision == HopperDivision::shared_keys;
  static constexpr int kConsumers =
      kDivision == HopperDivision::own_keys_3 ? 3 : 2;  // warpgroups that compute
  static constexpr int kRegisters = kConsumers == 3 ? 160 : 240, kLoaderRegisters = kConsumers == 3 ? 32 : 24;
  static constexpr int kKeys = kShared ? kTile : kConsumers * kTile;
  static constexpr int kQueries = kShared ? kConsumers * kTile : kTile;
  static constexpr int kPanels = (kD + kPanelColumns - 1) / kPanelColumns;
  static constexpr int kStages = 2, kOutputStages = kShared && kD > 128 ? 1 : 2;  // tiles of q, of do
  static constexpr int kKeyBytes = kPanels * kKeys * kRowBytes, kQueryBytes = kPanels * kQueries * kRowBytes;
  static constexpr int kStatisticsBytes = kQueries * 2 * static_cast<int>(sizeof(float));
  static constexpr int kK = 0, kV = kKeyBytes, kQ = 2 * kKeyBytes, kDo = kQ + kStages * kQueryBytes;
  static constexpr int kSlots = kDo + kOutputStages * kQueryBytes;  // ds', then p' or a second ds'
  static constexpr int kStatistics = kSlots + 2 * kConsumers * kSlotBytes;
  static constexpr int kBarriers = kStatistics + kStages * kStatisticsBytes;
  static constexpr int kBytes = kBarriers + 8 * (1 + 2 * (kStages + kOutputStages));
  static_assert(kBytes <= 227 << 10);
};

struct Results {
  const float2* statistics;  // [samples, heads, padded queries]: lse in powers of two, rowsum(do o)
  float4* dq;                // [samples, heads, tiles of 64 queries, d / 8, 128 threads]
  void *dk, *dv;
};

__host__ __device__ int64_t padded(int64_t queries) {
  return (queries + kPaddedQueries - 1) / kPaddedQueries * kPaddedQueries;
}

// The barriers of a block, in shared memory
template <class L>
struct Barriers {
  uint64_t* at;
  __device__ uint64_t* keys() const { return at; }
  __device__ uint64_t* q_full(int stage) const { return at + 1 + stage; }
  __device__ uint64_t* q_free(int stage) const { return at + 1 + L::kStages + stage; }
  __device__ uint64_t* do_full(int stage) const { return at + 1 + 2 * L::kStages + stage; }
  __device__ uint64_t* do_free(int stage) const { return at + 1 + 2 * L::kStages + L::kOutputStages + stage; }
};

// What a block does: keys of one head of keys, and the tiles of queries that see any of them
struct Work {
  int sample, key_head, key0, first_head, heads, tile0, tiles;
};
template <class L>
__device__ Work work_of_block(const Attention& a) {
  const int64_t blocks = (a.tk + L::kKeys - 1) / L::kKeys, pair = blockIdx.x / blocks;
  const int64_t sample = pair / a.kv_heads, key0 = (blockIdx.x - pair * blocks) * L::kKeys;
  Work w;
  w.sample = static_cast<int>(sample);
  w.key_head = static_cast<int>(pair - sample * a.kv_heads);
  w.key0 = static_cast<int>(key0);
  w.heads = static_cast<int>(a.heads / a.kv_heads);
  w.first_head = w.key_head * w.heads;
  w.tile0 = a.causal && key0 > a.shift() ? static_cast<int>((key0 - a.shift()) / L::kQueries) : 0;
  w.tiles = static_cast<int>((a.tq + L::kQueries - 1) / L::kQueries);
  return w;
}

template <class L>
__device__ void load_tiles(const Attention& a, const Work& w, const Results& x, const Barriers<L>& barriers,
                           unsigned char* shared, const TileMap& q, const TileMap& k, const TileMap& v,
                           const TileMap& d_o) {
  const auto load = [&](const TileMap& map, uint64_t* barrier, int to, int rows, int head, int token) {
    for (int panel = 0; panel < L::kPanels; ++panel)
      load_tile(map, barrier, shared + to + panel * rows * kRowBytes, panel * kPanelColumns, head, token,
                w.sample);
  };
  expect_bytes(barriers.keys(), 2 * L::kKeyBytes);
  load(k, barriers.keys(), L::kK, L::kKeys, w.key_head, w.key0);
  load(v, barriers.keys(), L::kV, L::kKeys, w.key_head, w.key0);
  uint32_t step = 0;
  for (int head = w.first_head; head < w.first_head + w.heads; ++head)
    for (int tile = w.tile0; tile < w.tiles; ++tile, ++step) {
      const int query = tile * L::kQueries;
      int stage = static_cast<int>(step % L::kStages);
      wait_for_phase(barriers.q_free(stage), step / L::kStages % 2 ^ 1);
      expect_bytes(barriers.q_full(stage), L::kQueryBytes + L::kStatisticsBytes);
      load(q, barriers.q_full(stage), L::kQ + stage * L::kQueryBytes, L::kQueries, head, query);
      load_bytes(x.statistics + (w.sample * a.heads + head) * padded(a.tq) + query, barriers.q_full(stage),
                 shared + L::kStatistics + stage * L::kStatisticsBytes, L::kStatisticsBytes);
      stage = static_cast<int>(step % L::kOutputStages);
      wait_for_phase(barriers.do_free(stage), step / L::kOutputStages % 2 ^ 1);
      expect_bytes(barriers.do_full(stage), L::kQueryBytes);
      load(d_o, barriers.do_full(stage), L::kDo + stage * L::kQueryBytes, L::kQueries, head, query);
    }
}

/// scores [64 keys, 64 queries] = x y' over the head's columns, of panels with so many rows
template <class T, int kD>
__device__ inline void rows_times_rows(float (&scores)[32], uint32_t x, int x_rows, uint32_t y, int y_rows) {
  begin_products();
#pragma unroll
  for (int step = 0; step < kD / kInnerStep; ++step)
    multiply<T, kTile, false, false>(scores, columns_inner(x, x_rows, step), columns_inner(y, y_rows, step),
                                     step > 0);
  commit_products();
}

// Hides the queries before `begin` from the thread's two keys
__device__ inline void hide_unseeing(float (&scores)[32], int2 begin) {
#pragma unroll
  for (int i = 0; i < 32; ++i)
    if (i / 4 * 8 + first_column() + i % 2 < (i % 4 < 2 ? begin.x : begin.y)) scores[i] = -INFINITY;
}
// Where the queries begin that see a key
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
  constexpr bool kShared = L::kShared;
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
      rows_times_rows<T, kD>(scores, keys, L::kKeys, q + own_rows, L::kQueries);
      wait_for_phase(barriers.do_full(do_stage), step / L::kOutputStages % 2);
      rows_times_rows<T, kD>(dp, values, L::kKeys, d_o + own_rows, L::kQueries);
      wait_for_products<1>();
      if (query0 < last_begins) hide_unseeing(scores, {row_begin.x - query0, row_begin.y - query0});
      weigh(a, scores, statistics);
      uint32_t weights[4][4], slopes[4][4];
      round_operand<T>(scores, weights);

      float dq[kD / 2];
      uint32_t slot;  // of ds'
      if constexpr (kShared) {
        wait_for_products<0>();
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
        begin_products();
#pragma unroll
        for (int k = 0; k < L::kQueries / kInnerStep; ++k)
          multiply<T, kD, false, true>(sum_0, columns_inner(left, kTile, k),
                                       rows_inner(right, L::kQueries, k), true);
        commit_products();
      } else {
        begin_products();
#pragma unroll
        for (int k = 0; k < kTile / kInnerStep; ++k)
          multiply<T, kD, true>(sum_0, weights[k], rows_inner(d_o, L::kQueries, k), true);
        commit_products();
        wait_for_products<1>();
        slope(scores, dp, statistics);
        round_operand<T>(dp, slopes);
        // Two slots by turns: the barrier of the next step ends the use of this one.
        const int at = L::kSlots + (2 * group + static_cast<int>(step % 2)) * kSlotBytes;
        store_operand(slopes, shared + at);
        fence_for_products();
        begin_products();
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
      wait_for_products<1>();
      __syncwarp();
      if (thread % 32 == 0) {
        arrive(barriers.q_free(stage));
        arrive(barriers.do_free(do_stage));
      }
      wait_for_products<0>();
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

template <class T, class L>
__global__ void __launch_bounds__((1 + L::kConsumers) * kGroup, 1)
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
    }
    for (int i = 0; i < L::kOutputStages; ++i) {
      make_barrier(barriers.do_full(i), 1);
      make_barrier(barriers.do_free(i), kWarps);
    }
    fence_new_barriers();
  }
  __syncthreads();
  const Work w = work_of_block<L>(a);
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  if (group == 0) {
    set_registers<L::kLoaderRegisters, false>();
    if (threadIdx.x == 0) load_tiles<L>(a, w, x, barriers, shared, q, k, v, d_o);
  } else {
    set_registers<L::kRegisters, true>();
    sum_over_queries<T, L>(a, w, x, barriers, shared, group - 1);
  }
}

// A warp a query: statistics, for padding too, where they make weights 0
template <class T>
__global__ void hopper_statistics(Attention a, const T* o, const T* d_o, const float* lse,
                                  float2* statistics) {
  const int64_t rows = a.batch * a.heads * padded(a.tq);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kBlockWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const int64_t pair = row / padded(a.tq), query = row - pair * padded(a.tq), sample = pair / a.heads;
  float sum = 0, log_2 = INFINITY;
  if (query < a.tq) {
    const int64_t at = (sample * a.tq + query) * a.ld_o + (pair - sample * a.heads) * a.d;
    for (int64_t i = 2 * lane; i < a.d; i += 64) {
      float x[2], y[2];
      load<2>(o + at + i, x);
      load<2>(d_o + at + i, y);
      sum = fmaf(x[1], y[1], fmaf(x[0], y[0], sum));
    }
    const float natural = lse[pair * a.tq + query];
    if (isfinite(natural)) log_2 = natural * kLog2E;  // a query that sees no key has none
  }
  sum = warp_sum(sum);
  if (lane == 0) statistics[row] = {log_2, sum};
}

// A warpgroup a tile of 64 queries
template <class T>
__global__ void hopper_round_dq(Attention a, const float4* sums, T* dq) {
  const int64_t tiles = padded(a.tq) / kTile, pair = blockIdx.x / tiles, sample = pair / a.heads;
  const int64_t query = (blockIdx.x - pair * tiles) * kTile + first_row();
  T* const to = dq + sample * a.tq * a.ld_q + (pair - sample * a.heads) * a.d + first_column();
  for (int f = 0; f < static_cast<int>(a.d / 8); ++f) {
    const float4 x = sums[(blockIdx.x * (a.d / 8) + f) * kGroup + threadIdx.x];
    if (query < a.tq)
      *reinterpret_cast<uint32_t*>(to + query * a.ld_q + 8 * f) = two<T>(x.x * a.scale, x.y * a.scale);
    if (query + 8 < a.tq)
      *reinterpret_cast<uint32_t*>(to + (query + 8) * a.ld_q + 8 * f) = two<T>(x.z * a.scale, x.w * a.scale);
  }
}

template <class F>
void by_head(int64_t d, F&& f) {
  if (d == 48) return f(std::integral_constant<int, 48>());
  if (d == 64) return f(std::integral_constant<int, 64>());
  if (d == 96) return f(std::integral_constant<int, 96>());
  if (d == 128) return f(std::integral_constant<int, 128>());
  if (d == 192) return f(std::integral_constant<int, 192>());
  throw std::logic_error("attention on Hopper with heads of " + std::to_string(d) + " columns");
}
/// f(Layout) of a division that a warpgroup's registers allow
template <class F>
void by_layout(int64_t d, HopperDivision division, F&& f) {
  using enum HopperDivision;
  by_head(d, [&](auto head) {
    constexpr int kD = head();
    if (division == shared_keys) return f(Layout<kD, shared_keys>());
    if constexpr (kD <= 96)
      if (division == own_keys_2) return f(Layout<kD, own_keys_2>());
    if constexpr (kD <= 48)
      if (division == own_keys_3) return f(Layout<kD, own_keys_3>());
    throw std::logic_error("attention on Hopper: heads of " + std::to_string(d) +
                           " columns are not divided so");
  });
}

}  // namespace

const char* name_of(HopperDivision division) {
  constexpr const char* kNames[] = {"two warpgroups with keys of their own",
                                    "three warpgroups with keys of their own",
                                    "two warpgroups with the same keys"};
  return kNames[static_cast<int>(division)];
}

std::span<const HopperDivision> hopper_divisions(int64_t d) {
  using enum HopperDivision;
  static constexpr HopperDivision kNarrow[] = {own_keys_2, own_keys_3, shared_keys},
                                  kMiddle[] = {own_keys_2, shared_keys}, kWide[] = {shared_keys};
  if (d == 48) return kNarrow;
  if (d == 64 || d == 96) return kMiddle;
  if (d == 128 || d == 192) return kWide;
  return {};
}

bool hopper_takes_backward(const Attention& a) {
  if ((a.act != DType::bf16 && a.act != DType::f16) || a.last_more != 0 || a.biased || a.deterministic)
    return false;
  for (const int64_t ld : {a.ld_q, a.ld_kv, a.ld_o})
    if (ld % 8 != 0) return false;
  return a.tq > 0 && a.tk > 0 && !hopper_divisions(a.d).empty();
}

int64_t hopper_backward_workspace(const Attention& a) {
  return a.batch * a.heads * padded(a.tq) * (a.d + 2) * static_cast<int64_t>(sizeof(float));
}

void attention_hopper_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                               const float* lse, const void* d_o, void* dq, void* dk, void* dv,
                               float* workspace, cudaStream_t stream, HopperDivision division) {
  if (a.batch == 0) return;
  const int64_t rows = a.batch * a.heads * padded(a.tq);
  const Results x{reinterpret_cast<const float2*>(workspace + rows * a.d),
                  reinterpret_cast<float4*>(workspace), dk, dv};
  ISOBAR_CUDA(cudaMemsetAsync(workspace, 0, static_cast<size_t>(rows * a.d) * sizeof(float), stream));
  const auto run = [&](auto type) {
    using T = decltype(type);
    launch(hopper_statistics<T>, grid(ceil_div(rows, kBlockWarps)), kThreads, 0, stream, a,
           static_cast<const T*>(o), static_cast<const T*>(d_o), lse,
           reinterpret_cast<float2*>(workspace + rows * a.d));
    by_layout(a.d, division, [&](auto layout) {
      using L = decltype(layout);
      launch(hopper_backward_kernel<T, L>, grid(ceil_div(a.tk, L::kKeys) * a.batch * a.kv_heads),
             (1 + L::kConsumers) * kGroup, L::kBytes, stream, a, x,
             tile_map(q, a.d, a.heads, a.tq, a.batch, a.ld_q, L::kQueries),
             tile_map(k, a.d, a.kv_heads, a.tk, a.batch, a.ld_kv, L::kKeys),
             tile_map(v, a.d, a.kv_heads, a.tk, a.batch, a.ld_kv, L::kKeys),
             tile_map(d_o, a.d, a.heads, a.tq, a.batch, a.ld_o, L::kQueries));
    });
    launch(hopper_round_dq<T>, grid(rows / kTile), kGroup, 0, stream, a,
           reinterpret_cast<const float4*>(workspace), static_cast<T*>(dq));
  };
  a.act == DType::bf16 ? run(Bf16{}) : run(F16{});
}

}  // namespace isobar::cuda
