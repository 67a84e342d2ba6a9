// Common to the divisions of attention's backward on Hopper (attention_backward.cu): shared memory of a
// block, its work, and the loads of its tiles.
#pragma once
#include <cmath>

#include "model/backend/cuda/kernels/hopper/attention.h"
#include "model/backend/cuda/kernels/hopper/fragments.cuh"

namespace isobar::cuda::hopper {

constexpr int kPaddedQueries = 128;            // queries of the workspace: whole tiles of this size
constexpr int kSlotBytes = kTile * kRowBytes;  // of p' or ds' of one warpgroup

template <int kColumns, HopperDivision kDivision>
struct Layout {
  static constexpr int kD = kColumns;
  static constexpr bool kShared = kDivision == HopperDivision::shared_keys;
  static constexpr bool kHeld = kDivision == HopperDivision::held_keys_2;  // keys and values in registers
  static constexpr bool kByColumns = kDivision == HopperDivision::columns_3;
  static constexpr int kConsumers = kByColumns ? 3 : 2;  // warpgroups that compute
  static constexpr int kRegisters = kConsumers == 3 ? 160 : 240, kLoaderRegisters = kConsumers == 3 ? 32 : 24;
  static constexpr int kKeys = kShared ? kTile : kByColumns ? 96 : kConsumers * kTile;
  static constexpr int kQueries = kShared ? kConsumers * kTile : kTile;
  static constexpr int kPanels = (kD + kPanelColumns - 1) / kPanelColumns;
  static constexpr int kStages = 2, kOutputStages = kShared && kD > 128 ? 1 : 2;  // tiles of q, of do
  static constexpr int kKeyBytes = kPanels * kKeys * kRowBytes, kQueryBytes = kPanels * kQueries * kRowBytes;
  static constexpr int kStatisticsBytes = kQueries * 2 * static_cast<int>(sizeof(float));
  static constexpr int kK = 0, kV = kKeyBytes, kQ = 2 * kKeyBytes, kDo = kQ + kStages * kQueryBytes;
  static constexpr int kSlots = kDo + kOutputStages * kQueryBytes;  // ds', then p' or a second ds'
  static constexpr int kStatistics = kSlots + 2 * (kByColumns ? 2 : kConsumers) * kSlotBytes;
  static constexpr int kBarriers = kStatistics + kStages * kStatisticsBytes;
  static constexpr int kBytes = kBarriers + 8 * (1 + 2 * (kStages + kOutputStages));
  static_assert(kBytes <= 227 << 10);
};

struct Results {
  const float2* statistics;  // [samples, heads, padded queries]: lse in powers of two, rowsum(do o)
  float4* dq;                // [samples, heads, tiles of 64 queries, d / 8, 128 threads]
  void *dk, *dv;
};

__host__ __device__ inline int64_t padded(int64_t queries) {
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

// A block's work: keys of one head of keys, and the tiles of queries that see any of them
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

}  // namespace isobar::cuda::hopper
