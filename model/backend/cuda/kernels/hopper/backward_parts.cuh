// Common to both forms of attention's backward on Hopper (attention_backward.cu): shared memory of a
// block, its work, and the loads of its tiles.
#pragma once
#include <cmath>

#include "model/backend/cuda/kernels/hopper/attention.h"
#include "model/backend/cuda/kernels/hopper/fragments.cuh"

namespace isobar::cuda::hopper {

// How a block divides its work among warpgroups, by the width of heads: what registers allow, the fastest on
// an H200
template <int kColumns>
struct Layout {
  static constexpr int kD = kColumns, kPanels = (kD + kPanelColumns - 1) / kPanelColumns;
  static constexpr bool kByColumns = kD > 96;
  static constexpr bool kHeld = kD == 64;                                     // keys and values in registers
  static constexpr int kConsumers = kByColumns ? kPanels : kD <= 48 ? 3 : 2;  // warpgroups that compute
  static constexpr int kThreads = (1 + kConsumers) * kGroup;
  static constexpr int kRegisters = kConsumers == 3 ? 160 : 240, kLoaderRegisters = kConsumers == 3 ? 32 : 24;
  static constexpr int kKeys = kByColumns ? (kConsumers == 3 ? 96 : 128) : kConsumers * kTile,
                       kQueries = kTile;
  static constexpr int kOwnKeys = kKeys / kConsumers;  // of a warpgroup's scores
  static constexpr int kStages = 2;                    // tiles of q and of do
  static constexpr int kKeyBytes = kPanels * kKeys * kRowBytes, kQueryBytes = kPanels * kQueries * kRowBytes;
  static constexpr int kStatisticBytes = kQueries * static_cast<int>(sizeof(float));
  static constexpr int kK = 0, kV = kKeyBytes, kQ = 2 * kKeyBytes, kDo = kQ + kStages * kQueryBytes;
  // ds' and by columns p' of a few steps, keys by queries
  static constexpr int kSlots = kDo + kStages * kQueryBytes, kSlotBytes = kKeys * kRowBytes;
  static constexpr int kSlotStages = kByColumns ? 2 : 4, kSlotStageBytes = (kByColumns ? 2 : 1) * kSlotBytes;
  static constexpr int kLse = kSlots + kSlotStages * kSlotStageBytes;
  static constexpr int kSums = kLse + kStages * kStatisticBytes,
                       kBarriers = kSums + kStages * kStatisticBytes;
  static constexpr int kBytes = kBarriers + 8 * (1 + 4 * kStages + 2 * kSlotStages);
  static_assert(kBytes <= 227 << 10);
};

struct Results {
  float *lse, *sums;  // [samples, heads, padded queries]: lse in powers of two, rowsum(do o)
  float scale;        // of scores, over ln 2
  float4* dq;         // [samples, heads, tiles of 64 queries, d / 8, 128 threads]
  void *dk, *dv;
};

__host__ __device__ inline int64_t padded(int64_t queries) {
  return (queries + kTile - 1) / kTile * kTile;
}

// The barriers of a block, in shared memory
template <class L>
struct Barriers {
  uint64_t* at;
  __device__ uint64_t* keys() const { return at; }
  __device__ uint64_t* q_full(int stage) const { return at + 1 + stage; }
  __device__ uint64_t* q_free(int stage) const { return at + 1 + L::kStages + stage; }
  __device__ uint64_t* do_full(int stage) const { return at + 1 + 2 * L::kStages + stage; }
  __device__ uint64_t* do_free(int stage) const { return at + 1 + 3 * L::kStages + stage; }
  __device__ uint64_t* slot_full(int stage) const { return at + 1 + 4 * L::kStages + stage; }
  __device__ uint64_t* slot_free(int stage) const { return at + 1 + 4 * L::kStages + L::kSlotStages + stage; }
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

// One tile of queries of one head, in the order of the block's work; offsets in its shared memory
template <class L>
struct Step {
  int index = 0, tile, dq_tile;  // dq_tile: of all heads' and samples' tiles
  __device__ Step(const Attention& a, const Work& w)
      : tile(w.tile0), dq_tile((w.sample * static_cast<int>(a.heads) + w.first_head) * w.tiles + w.tile0) {}
  __device__ bool left(const Work& w) const { return index < w.heads * (w.tiles - w.tile0); }
  __device__ void go_on(const Work& w) {
    ++index;
    ++dq_tile;
    if (++tile < w.tiles) return;
    tile = w.tile0;
    dq_tile += w.tile0;
  }
  __device__ int stage() const { return index % L::kStages; }
  __device__ uint32_t phase() const { return static_cast<uint32_t>(index / L::kStages % 2); }
  __device__ int slot_stage() const { return index % L::kSlotStages; }
  __device__ uint32_t slot_phase() const { return static_cast<uint32_t>(index / L::kSlotStages % 2); }
  __device__ int slot() const { return L::kSlots + slot_stage() * L::kSlotStageBytes; }
  __device__ int query0() const { return tile * L::kQueries; }
  __device__ int q() const { return L::kQ + stage() * L::kQueryBytes; }
  __device__ int d_o() const { return L::kDo + stage() * L::kQueryBytes; }
  __device__ int lse() const { return L::kLse + stage() * L::kStatisticBytes; }
  __device__ int sums() const { return L::kSums + stage() * L::kStatisticBytes; }
};

// Gives a step's tiles back to the loader
template <class L>
__device__ inline void release(const Barriers<L>& barriers, const Step<L>& s) {
  __syncwarp();
  if (!elected()) return;
  arrive(barriers.q_free(s.stage()));
  arrive(barriers.do_free(s.stage()));
}

// Loads of a block, all by one thread
template <class L>
struct Loader {
  const Attention& a;
  const Work& w;
  const Results& x;
  const Barriers<L>& barriers;
  unsigned char* shared;
  const TileMap &q, &k, &v, &d_o;

  __device__ void panels(const TileMap& map, uint64_t* barrier, int to, int rows, int head, int token) const {
    for (int panel = 0; panel < L::kPanels; ++panel)
      load_tile(map, barrier, shared + to + panel * rows * kRowBytes, panel * kPanelColumns, head, token,
                w.sample);
  }
  __device__ void load_keys() const {
    expect_bytes(barriers.keys(), 2 * L::kKeyBytes);
    panels(k, barriers.keys(), L::kK, L::kKeys, w.key_head, w.key0);
    panels(v, barriers.keys(), L::kV, L::kKeys, w.key_head, w.key0);
  }
  __device__ void load_queries(const Step<L>& s, const TileMap& map, int to, const float* statistic,
                               int statistic_to, uint64_t* barrier) const {
    expect_bytes(barrier, L::kQueryBytes + L::kStatisticBytes);
    const int head = w.heads == 1 ? w.first_head : w.first_head + s.index / (w.tiles - w.tile0);
    panels(map, barrier, to, L::kQueries, head, s.query0());
    load_bytes(statistic + int64_t{s.dq_tile} * kTile, barrier, shared + statistic_to, L::kStatisticBytes);
  }
  __device__ void load_q(const Step<L>& s) const {
    load_queries(s, q, s.q(), x.lse, s.lse(), barriers.q_full(s.stage()));
  }
  __device__ void load_do(const Step<L>& s) const {
    load_queries(s, d_o, s.d_o(), x.sums, s.sums(), barriers.do_full(s.stage()));
  }
  __device__ void load_all() const {
    load_keys();
    for (Step<L> s(a, w); s.left(w); s.go_on(w)) {
      wait_for_phase(barriers.q_free(s.stage()), s.phase() ^ 1);
      load_q(s);
      wait_for_phase(barriers.do_free(s.stage()), s.phase() ^ 1);
      load_do(s);
    }
  }
};

}  // namespace isobar::cuda::hopper
