// Units of attention's work and one thread's scratch, shared by the driver (attention.cpp), which sizes the
// workspace, and the kernels (attention_forward.h, attention_backward.h), which divide it.
//
// Sizes count 32-bit lanes: one float, or two consecutive bf16 along the summed dimension; f16 is widened to
// float. Scratch is packed so that register tiles read it front to back:
//   rows    [n][lanes(d)]            a row's elements in order
//   columns [lanes(d)][64]           the transpose, 64 query rows across
//   pairs   [lanes(n)][d or d_pad]   two rows' elements side by side (bf16); f32: the rows themselves
// For bf16 on tiles (attention_tiles.h) the buffers hold whole tiles of 16 lanes. Sizes cover both cases, so
// that a plan's memory does not depend on the CPU.
#pragma once
#include <algorithm>
#include <cstdint>

#include "model/backend/cpu/isa/kernels.h"

namespace isobar::cpu {

constexpr int64_t kQueryTile = 64;  // queries of a tile: the vector dimension of S^T
constexpr int64_t kKeyBlock =
    96;  // keys of a tile: S^T and its gradient (24 KiB each) stay near the L1 cache

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Columns of a tile for `queries`: whole vectors of the widest kind
constexpr int64_t tile_width(int64_t queries) {
  return ceil_div(queries, 16) * 16;
}

// Query tiles that go through the same keys while those are in the L2 cache: with many tokens no core caches
// all keys and values, and each tile would fetch them from memory.
constexpr int64_t kTilesTogether = 4;

struct AttentionArgs {
  Attention shape;
  const void *q, *k, *v, *o, *d_o;
  void *o_out, *dq, *dk, *dv;
  const float* lse;
  float* lse_out;
  int64_t ld_dq, ld_dkv;
};

struct AttentionSizes {
  int64_t pack, group, query_tiles, d_lanes, tile_lanes, d_pad, key_span, key_spans;

  explicit AttentionSizes(const Attention& a)
      : pack(a.act == DType::bf16 ? 2 : 1),
        group(a.heads / a.kv_heads),
        query_tiles(ceil_div(a.tq, kQueryTile)),
        d_lanes(ceil_div(a.d, pack)),
        tile_lanes(pack == 2 ? ceil_div(d_lanes, 16) * 16 : d_lanes),
        d_pad(ceil_div(a.d, 16) * 16),
        // keys of a backward unit: many, since each pass over the queries costs traffic; few enough for dK,
        // dV in L2
        key_span(kKeyBlock * (a.d <= 96 ? 4 : 2)),
        key_spans(ceil_div(a.tk, key_span)) {}
};

// Keys [first, end) are visible to a query.
inline int64_t end_of_keys(const Attention& a, int64_t query) {
  return a.causal ? std::clamp<int64_t>(query + 1 + a.shift(), 0, a.tk) : a.tk;
}
inline int64_t first_key(const Attention& a, int64_t query) {
  return a.window == 0 ? 0 : std::clamp<int64_t>(query + 1 + a.shift() - a.window, 0, a.tk);
}

// Block of keys in which those of queries from `query` on begin
inline int64_t first_block(const Attention& a, int64_t query) {
  return first_key(a, query) / kKeyBlock * kKeyBlock;
}

// True if a key of [key0, key0 + keys) is hidden from a query of [query0, query0 + queries)
inline bool hides_some(const Attention& a, int64_t query0, int64_t queries, int64_t key0, int64_t keys) {
  return key0 + keys > end_of_keys(a, query0) || key0 < first_key(a, query0 + queries - 1);
}

// The first key's row, at query0, of a head's bias or its gradient; nullptr: there is none
template <class Float>
Float* bias_at(const Attention& a, Float* all, int64_t head, int64_t query0) {
  return all == nullptr ? nullptr : all + head * a.tk * a.tq + query0;
}

// Allocates cache-line-aligned pieces; with a null base it only counts.
class Carver {
 public:
  explicit Carver(float* base) : base_(base) {}
  float* take(int64_t lanes) {
    float* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += ceil_div(lanes, 16) * 16;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  float* base_;
  int64_t used_ = 0;
};

struct ForwardBuffers {
  float *k_rows, *v_pairs;             // one (batch, kv head), all keys
  float* q_columns;                    // [d_lanes][64]
  float *scores, *probabilities;       // [96][64] f32; [lanes(96)][64] (the same memory in f32)
  float* o_transposed;                 // [d][64] f32
  float *row_max, *row_sum, *rescale;  // [64]
  int64_t tile_stride;                 // lanes between adjacent tiles' buffers
  int64_t lanes;

  ForwardBuffers() = default;
  ForwardBuffers(const Attention& a, const AttentionSizes& s, float* base) {
    Carver carve(base);
    const int64_t keys = s.pack == 2 ? ceil_div(a.tk, 32) * 32 : a.tk, columns = s.pack == 2 ? s.d_pad : a.d;
    k_rows = carve.take(keys * s.tile_lanes);
    v_pairs = carve.take(keys / s.pack * columns);
    scores = carve.take(kKeyBlock * kQueryTile);
    probabilities = s.pack == 1 ? scores : carve.take(kKeyBlock / 2 * kQueryTile);
    rescale = carve.take(kQueryTile);
    const int64_t shared = carve.used();
    q_columns = carve.take(s.tile_lanes * kQueryTile);
    o_transposed = carve.take(columns * kQueryTile);
    row_max = carve.take(kQueryTile);
    row_sum = carve.take(kQueryTile);
    tile_stride = carve.used() - shared;
    lanes = shared + kTilesTogether * tile_stride;
  }
  ForwardBuffers of_tile(int64_t i) const {  // of the i-th tile in a group
    ForwardBuffers b = *this;
    for (float** own : {&b.q_columns, &b.o_transposed, &b.row_max, &b.row_sum}) *own += i * tile_stride;
    return b;
  }
};

struct BackwardBuffers {
  // all query heads of one (batch, kv head), tile after tile; strides below
  float *q_columns, *q_pairs, *do_columns, *do_pairs;
  float *lse2, *delta;                 // [64] per tile: log-sum-exp in base 2; rowsum(dO * O)
  float* dq[2];                        // [d][64] f32 per tile; two slots, see attention_backward.h
  float *k_rows, *k_pairs, *v_rows;    // one key span
  float *dk, *dv;                      // [key_span][d_pad] f32
  float *scores, *grads;               // [96][64] f32
  float* dbias;                        // [heads, tk, tq]: this thread's part of a bias's gradient
  float *p_rows, *ds_rows, *ds_pairs;  // [96][64 / pack], same, [96 / pack][64] (f32: the same memory)
  int64_t columns_stride, pairs_stride, dq_stride;  // lanes per tile
  int64_t lanes;

  BackwardBuffers(const Attention& a, const AttentionSizes& s, float* base) {
    const int64_t tiles = s.group * s.query_tiles;
    columns_stride = s.tile_lanes * kQueryTile;
    pairs_stride = kQueryTile / s.pack * s.d_pad;
    const int64_t columns = s.pack == 2 ? s.d_pad : a.d;
    dq_stride = columns * kQueryTile;
    Carver carve(base);
    q_columns = carve.take(tiles * columns_stride);
    do_columns = carve.take(tiles * columns_stride);
    q_pairs = carve.take(tiles * pairs_stride);
    do_pairs = carve.take(tiles * pairs_stride);
    lse2 = carve.take(tiles * kQueryTile);
    delta = carve.take(tiles * kQueryTile);
    dq[0] = carve.take(tiles * dq_stride);
    dq[1] = carve.take(tiles * dq_stride);
    const int64_t span = std::min(s.key_span, ceil_div(a.tk, 32) * 32);
    k_rows = carve.take(span * s.tile_lanes);
    v_rows = carve.take(span * s.tile_lanes);
    k_pairs = carve.take(span / s.pack * columns);
    dk = carve.take(span * s.d_pad);
    dv = carve.take(span * s.d_pad);
    scores = carve.take(kKeyBlock * kQueryTile);
    grads = carve.take(kKeyBlock * kQueryTile);
    p_rows = s.pack == 1 ? scores : carve.take(kKeyBlock * kQueryTile / 2);
    ds_rows = s.pack == 1 ? grads : carve.take(kKeyBlock * kQueryTile / 2);
    ds_pairs = s.pack == 1 ? grads : carve.take(kKeyBlock / 2 * kQueryTile);
    dbias = carve.take(a.biased ? a.heads * a.tk * a.tq : 0);
    lanes = carve.used();
  }
};

}  // namespace isobar::cpu
