// Attention forward on Hopper. A block owns queries, 64 a warpgroup, and iterates over tiles of keys that one
// more warpgroup loads (TMA). The exponentials of one warpgroup hide under the products of others; within
// one, weights times values runs under the next tile's scores. Weights are relative to the largest score of
// the first tiles: only where later ones are far above it is it searched anew, and the sums so far
// multiplied.
#include <cmath>

#include "model/backend/cuda/kernels/hopper/attention.h"
#include "model/backend/cuda/kernels/hopper/fragments.cuh"

namespace isobar::cuda {
namespace {

using namespace hopper;

constexpr int kStages = 2;
constexpr float kMostWeight = 4096;  // sum of a thread's in a row: far from what 16 bits cannot hold

template <int kD>
struct Layout {
  static constexpr int kConsumers = kD <= 64 ? 4 : 2;             // warpgroups that compute
  static constexpr int kRegisters = kConsumers == 4 ? 112 : 240;  // of their threads
  static constexpr bool kTurns = kD > 128;                        // they issue products by turns
  static constexpr int kQueries = kConsumers * kTile;
  static constexpr int kKeys = kD <= 48    ? 80
                               : kD <= 64  ? 64
                               : kD <= 128 ? 128
                               : kD <= 192 ? 96
                                           : 80;  // of a tile
  static constexpr int kPanels = (kD + kPanelColumns - 1) / kPanelColumns;
  static constexpr int kQueryBytes = kPanels * kQueries * kRowBytes, kKeyBytes = kPanels * kKeys * kRowBytes;
  static constexpr int kK = kQueryBytes, kV = kK + kStages * kKeyBytes, kBarriers = kV + kStages * kKeyBytes;
  static constexpr int kBytes = kBarriers + 8 * (1 + 4 * kStages + kConsumers);
  static_assert(kBytes <= 227 << 10);
};

// The barriers of a block, in shared memory
struct Barriers {
  uint64_t* at;
  __device__ uint64_t* queries() const { return at; }
  __device__ uint64_t* k_full(int stage) const { return at + 1 + stage; }
  __device__ uint64_t* k_free(int stage) const { return at + 1 + kStages + stage; }
  __device__ uint64_t* v_full(int stage) const { return at + 1 + 2 * kStages + stage; }
  __device__ uint64_t* v_free(int stage) const { return at + 1 + 3 * kStages + stage; }
  __device__ uint64_t* turn(int group) const { return at + 1 + 4 * kStages + group; }
};

// A block's work: queries of one head, and the tiles of keys that any of them sees
struct Work {
  int sample, head, query0, tiles;
};
template <int kD>
__device__ Work work_of_block(const Attention& a) {
  constexpr int kQueries = Layout<kD>::kQueries;
  const int64_t blocks = (a.tq + kQueries - 1) / kQueries, pair = blockIdx.x / blocks;
  constexpr int kKeys = Layout<kD>::kKeys;
  const int64_t sample = pair / a.heads, query0 = (blockIdx.x - pair * blocks) * kQueries;
  int64_t seen = a.tk;
  if (a.causal && query0 + kQueries + a.shift() < seen) seen = query0 + kQueries + a.shift();
  return {static_cast<int>(sample), static_cast<int>(pair - sample * a.heads), static_cast<int>(query0),
          seen > 0 ? static_cast<int>((seen + kKeys - 1) / kKeys) : 0};
}

template <int kD>
__device__ void load_tiles(const Attention& a, const Work& w, const Barriers& barriers, unsigned char* shared,
                           const TileMap& q, const TileMap& k, const TileMap& v) {
  using L = Layout<kD>;
  constexpr int kKeys = L::kKeys;
  const int key_head = w.head / static_cast<int>(a.heads / a.kv_heads);
  const auto load = [&](const TileMap& map, uint64_t* barrier, int to, int rows, int its_head, int token) {
    expect_bytes(barrier, L::kPanels * rows * kRowBytes);
    for (int panel = 0; panel < L::kPanels; ++panel)
      load_tile(map, barrier, shared + to + panel * rows * kRowBytes, panel * kPanelColumns, its_head, token,
                w.sample);
  };
  load(q, barriers.queries(), 0, L::kQueries, w.head, w.query0);
  for (int tile = 0; tile < w.tiles; ++tile) {
    const int stage = tile % kStages;
    const uint32_t before = static_cast<uint32_t>(tile / kStages % 2 ^ 1);
    wait_for_phase(barriers.k_free(stage), before);
    load(k, barriers.k_full(stage), L::kK + stage * L::kKeyBytes, kKeys, key_head, tile * kKeys);
    wait_for_phase(barriers.v_free(stage), before);
    load(v, barriers.v_full(stage), L::kV + stage * L::kKeyBytes, kKeys, key_head, tile * kKeys);
  }
}

// Over the four threads of a row
__device__ inline float of_four_largest(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float of_four_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Hides the keys from `end` on of the thread's two rows
template <int kKeys>
__device__ inline void hide_unseen(float (&scores)[kKeys / 2], int2 end) {
  const int left[2] = {end.x - first_column(), end.y - first_column()};
#pragma unroll
  for (int i = 0; i < kKeys / 2; ++i)
    if (i / 4 * 8 + i % 2 >= left[i % 4 / 2]) scores[i] = -INFINITY;
}

// The softmax so far of a thread's two rows: weights are powers of two of scores times scale over ln 2, less
// `origin`, which is the largest of the first tiles and may lag behind what follows.
struct Rows {
  float origin[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};  // sum of this thread's weights
};
// Scores to weights; false if a row's origin lags so far behind that its weights may be too large
template <int kKeys>
__device__ inline bool weigh(const Rows& rows, float (&scores)[kKeys / 2], float scale, float (&sums)[2]) {
  const float first[2] = {rows.origin[0] == -INFINITY ? 0.0f : rows.origin[0],
                          rows.origin[1] == -INFINITY ? 0.0f : rows.origin[1]};
  float sum[4] = {};  // two a row
#pragma unroll
  for (int i = 0; i < kKeys / 2; ++i) {
    scores[i] = power_of_two(fmaf(scores[i], scale, -first[i % 4 / 2]));
    sum[i % 4] += scores[i];
  }
  sums[0] = sum[0] + sum[1];
  sums[1] = sum[2] + sum[3];
  return sums[0] <= kMostWeight && sums[1] <= kMostWeight;
}
// Moves the origins to the largest of these scores and before; returns what multiplies all sums before
template <int kKeys>
__device__ inline float2 move_origins(Rows& rows, const float (&scores)[kKeys / 2], float scale) {
  float before[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = -INFINITY;
#pragma unroll
    for (int f = 0; f < kKeys / 8; ++f)
      largest = fmaxf(largest, fmaxf(scores[4 * f + 2 * half], scores[4 * f + 2 * half + 1]));
    largest = fmaxf(rows.origin[half], of_four_largest(largest) * scale);
    before[half] = power_of_two(rows.origin[half] - (largest == -INFINITY ? 0.0f : largest));
    rows.origin[half] = largest;
    rows.sum[half] *= before[half];
  }
  return {before[0], before[1]};
}

template <class T, int kD>
__device__ inline void begin_scores(float (&scores)[Layout<kD>::kKeys / 2], uint32_t queries, uint32_t keys) {
  constexpr int kKeys = Layout<kD>::kKeys;
  begin_products();
#pragma unroll
  for (int step = 0; step < kD / kInnerStep; ++step)
    multiply<T, kKeys, false, false>(scores, columns_inner(queries, Layout<kD>::kQueries, step),
                                     columns_inner(keys, kKeys, step), step > 0);
  commit_products();
}

template <class T, int kD>
__device__ void attend(const Attention& a, const Work& w, const Barriers& barriers, unsigned char* shared,
                       int group, void* o, float* lse) {
  using L = Layout<kD>;
  constexpr int kKeys = L::kKeys;
  const uint32_t base = shared_address(shared),
                 queries = base + static_cast<uint32_t>(group * kTile * kRowBytes);
  const auto keys_at = [&](int tile) {
    return base + static_cast<uint32_t>(L::kK + tile % kStages * L::kKeyBytes);
  };
  const auto phase_of = [](int tile) { return static_cast<uint32_t>(tile / kStages % 2); };
  float sums[kD / 2] = {};
  Rows rows;
  wait_for_phase(barriers.queries(), 0);
  if (w.tiles > 0) {
    float scores[kKeys / 2];
    uint32_t weights[kKeys / kInnerStep][4];
    const int first_row_ends = keys_end(a, w.query0 + group * kTile),
              row = w.query0 + group * kTile + first_row();
    const int2 row_end{keys_end(a, row), keys_end(a, row + 8)};
    const auto hide = [&](int tile) {
      if ((tile + 1) * kKeys > first_row_ends) [[unlikely]]
        hide_unseen<kKeys>(scores, {row_end.x - tile * kKeys, row_end.y - tile * kKeys});
    };
    const auto release = [&](uint64_t* barrier) {
      __syncwarp();
      if (elected()) arrive(barrier);
    };
    const auto begin_sums = [&](int tile) {
      const uint32_t values = base + static_cast<uint32_t>(L::kV + tile % kStages * L::kKeyBytes);
      begin_products(sums, weights);
#pragma unroll
      for (int k = 0; k < kKeys / kInnerStep; ++k)
        multiply<T, kD, true>(sums, weights[k], rows_inner(values, kKeys, k), true);
      commit_products();
    };
    // The scores of a tile whose origins lag are made anew: a warpgroup decides that as one, as its products
    // are.
    const auto weigh_tile = [&](int tile) -> float2 {
      const float scale = a.scale * kLog2E;
      float2 before{1, 1};
      float more[2];
      bool all_right = tile > 0;
      if (tile > 0) all_right = weigh<kKeys>(rows, scores, scale, more);
      if (tile == 0 || any_in_barrier(1 + group, kGroup, !all_right)) {
        if (tile > 0) {
          begin_scores<T, kD>(scores, queries, keys_at(tile));
          wait_for_products<0>(scores, sums);
          hide(tile);
        }
        before = move_origins<kKeys>(rows, scores, scale);
        weigh<kKeys>(rows, scores, scale, more);
      }
      rows.sum[0] += more[0];
      rows.sum[1] += more[1];
      release(barriers.k_free(tile % kStages));
      return before;
    };
    const auto turn_phase = [&](int tile) { return static_cast<uint32_t>((tile - (group > 0)) % 2); };
    wait_for_phase(barriers.k_full(0), 0);
    begin_scores<T, kD>(scores, queries, keys_at(0));
    wait_for_products<0>(scores);
    hide(0);
    weigh_tile(0);
    round_operand<T>(scores, weights);
    for (int tile = 1; tile < w.tiles; ++tile) {
      wait_for_phase(barriers.k_full(tile % kStages), phase_of(tile));
      wait_for_phase(barriers.v_full((tile - 1) % kStages), phase_of(tile - 1));
      if constexpr (L::kTurns) wait_for_phase(barriers.turn(group), turn_phase(tile));
      begin_scores<T, kD>(scores, queries, keys_at(tile));
      begin_sums(tile - 1);
      if constexpr (L::kTurns) release(barriers.turn((group + 1) % L::kConsumers));
      wait_for_products<1>(scores);
      hide(tile);
      const float2 before = weigh_tile(tile);
      wait_for_products<0>(sums);
      release(barriers.v_free((tile - 1) % kStages));
      if (before.x != 1 || before.y != 1) {
#pragma unroll
        for (int i = 0; i < kD / 2; ++i) sums[i] *= i % 4 < 2 ? before.x : before.y;
      }
      round_operand<T>(scores, weights);
    }
    wait_for_phase(barriers.v_full((w.tiles - 1) % kStages), phase_of(w.tiles - 1));
    begin_sums(w.tiles - 1);
    wait_for_products<0>(sums);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t query = w.query0 + group * kTile + first_row() + 8 * half;
    const float sum = of_four_sum(rows.sum[half]), inverse = sum > 0 ? 1 / sum : 0.0f;
    if (query >= a.tq) continue;
    if (threadIdx.x % 4 == 0)
      lse[(int64_t{w.sample} * a.heads + w.head) * a.tq + query] =
          sum > 0 ? rows.origin[half] * (1 / kLog2E) + logf(sum) : -INFINITY;
    T* const to =
        static_cast<T*>(o) + (int64_t{w.sample} * a.tq + query) * a.ld_o + w.head * a.d + first_column();
#pragma unroll
    for (int f = 0; f < kD / 8; ++f)
      *reinterpret_cast<uint32_t*>(to + 8 * f) =
          two<T>(sums[4 * f + 2 * half] * inverse, sums[4 * f + 2 * half + 1] * inverse);
  }
}

template <class T, int kD>
__global__ void __launch_bounds__((1 + Layout<kD>::kConsumers) * kGroup, 1)
    hopper_forward_kernel(Attention a, void* o, float* lse, const __grid_constant__ TileMap q,
                          const __grid_constant__ TileMap k, const __grid_constant__ TileMap v) {
  using L = Layout<kD>;
  unsigned char* const shared = shared_bytes();
  const Barriers barriers{reinterpret_cast<uint64_t*>(shared + L::kBarriers)};
  if (threadIdx.x == 0) {
    constexpr uint32_t kWarps = L::kConsumers * kGroup / 32;
    make_barrier(barriers.queries(), 1);
    for (int i = 0; i < kStages; ++i) {
      make_barrier(barriers.k_full(i), 1);
      make_barrier(barriers.k_free(i), kWarps);
      make_barrier(barriers.v_full(i), 1);
      make_barrier(barriers.v_free(i), kWarps);
    }
    for (int i = 0; i < L::kConsumers; ++i) make_barrier(barriers.turn(i), kGroup / 32);
    fence_new_barriers();
  }
  __syncthreads();
  const Work w = work_of_block<kD>(a);
  const int group = warpgroup();
  if (group == 0) {
    set_registers<24, false>();
    if (threadIdx.x == 0) load_tiles<kD>(a, w, barriers, shared, q, k, v);
  } else {
    set_registers<L::kRegisters, true>();
    attend<T, kD>(a, w, barriers, shared, group - 1, o, lse);
  }
}

}  // namespace

bool hopper_takes_forward(const Attention& a) {
  if ((a.act != DType::bf16 && a.act != DType::f16) || a.last_more != 0 || a.biased || a.window > 0)
    return false;
  for (const int64_t ld : {a.ld_q, a.ld_kv, a.ld_o})
    if (ld % 8 != 0) return false;
  return a.tq > 0 && a.tk > 0 && a.d % kInnerStep == 0 && a.d >= kLeastWidth && a.d <= kMostWidth;
}

void attention_hopper(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                      cudaStream_t stream) {
  if (a.batch == 0) return;
  const auto run = [&](auto type) {
    using T = decltype(type);
    by_width<kMostWidth>(a.d, [&](auto width) {
      constexpr int kD = width();
      using L = Layout<kD>;
      launch(hopper_forward_kernel<T, kD>, grid(ceil_div(a.tq, L::kQueries) * a.batch * a.heads),
             (1 + L::kConsumers) * kGroup, L::kBytes, stream, a, o, lse,
             tile_map(q, a.d, a.heads, a.tq, a.batch, a.ld_q, L::kQueries),
             tile_map(k, a.d, a.kv_heads, a.tk, a.batch, a.ld_kv, L::kKeys),
             tile_map(v, a.d, a.kv_heads, a.tk, a.batch, a.ld_kv, L::kKeys));
    });
  };
  a.act == DType::bf16 ? run(Bf16{}) : run(F16{});
}

}  // namespace isobar::cuda
