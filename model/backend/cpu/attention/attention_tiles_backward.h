// attention_backward on tiles; included after attention_tiles.h.

// A patch's scores and dP -> P in rows, dS in rows and in pairs of keys, in one pass; N vectors of queries
template <class V, int N>
[[gnu::always_inline]] inline void gradient_columns(int64_t keys, float factor, const float* lse2,
                                                    const float* delta, const float* scores,
                                                    const float* grads, char* p_rows, char* ds_rows,
                                                    float* ds_pairs) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  const Reg f = V::set1(factor);
  Reg shift[N], minus[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) {
    shift[v] = V::sub(V::zero(), V::load(lse2 + v * W));
    minus[v] = V::load(delta + v * W);
  }
  Reg p0[N], p1[N];
  for (int64_t k = 0; k < keys; k += 2) {
    exponentials_of<V, bf16, false>(scores + k * kPatch, f, shift, p0);
    exponentials_of<V, bf16, false>(scores + (k + 1) * kPatch, f, shift, p1);
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const int64_t at = k * kPatch + v * W, next = at + kPatch;
      const int64_t row = k * kQueryTile + v * W, next_row = row + kQueryTile;
      const typename V::Rounded p = V::round_two(p0[v], p1[v]);
      V::store_even(p_rows + row * 2, p);
      V::store_odd(p_rows + next_row * 2, p);
      const Reg d0 = V::mul(p0[v], V::sub(V::load(grads + at), minus[v]));
      const Reg d1 = V::mul(p1[v], V::sub(V::load(grads + next), minus[v]));
      const typename V::Rounded ds = V::round_two(d0, d1);
      V::store_even(ds_rows + row * 2, ds);
      V::store_odd(ds_rows + next_row * 2, ds);
      V::store_pairs(ds_pairs + k / 2 * kQueryTile + v * W, ds);
    }
  }
}

template <class V>
[[gnu::noinline]] void gradients(int64_t keys, int64_t width, float factor, const float* lse2,
                                 const float* delta, const float* scores, const float* grads, char* p_rows,
                                 char* ds_rows, float* ds_pairs) {
  constexpr int N = 2, W = V::kWidth;
  int64_t j = 0;
  for (; j + N * W <= width; j += N * W)
    gradient_columns<V, N>(keys, factor, lse2 + j, delta + j, scores + j, grads + j, p_rows + j * 2,
                           ds_rows + j * 2, ds_pairs + j);
  for (; j < width; j += W)
    gradient_columns<V, 1>(keys, factor, lse2 + j, delta + j, scores + j, grads + j, p_rows + j * 2,
                           ds_rows + j * 2, ds_pairs + j);
}

// As pack_queries, in whole tiles
template <class V>
void pack_tile_queries(const AttentionArgs& args, const AttentionSizes& s, const BackwardBuffers& w,
                       int64_t batch, int64_t kv_head) {
  const Attention& a = args.shape;
  for (int64_t at = 0; at < s.group * s.query_tiles; ++at) {
    const int64_t head = kv_head * s.group + at / s.query_tiles;
    const int64_t query0 = at % s.query_tiles * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
    const int64_t row0 = batch * a.tq + query0, rows = whole(queries, kTileKeys);
    const char* q = element<bf16>(args.q, row0 * a.ld_q + head * a.d);
    const char* d_o = element<bf16>(args.d_o, row0 * a.ld_o + head * a.d);
    pack_tile_columns(q, a.ld_q, queries, a.d, s.tile_lanes, w.q_columns + at * w.columns_stride);
    pack_tile_columns(d_o, a.ld_o, queries, a.d, s.tile_lanes, w.do_columns + at * w.columns_stride);
    pack_tile_pairs<V>(q, a.ld_q, queries, rows, a.d, s.d_pad, w.q_pairs + at * w.pairs_stride);
    pack_tile_pairs<V>(d_o, a.ld_o, queries, rows, a.d, s.d_pad, w.do_pairs + at * w.pairs_stride);
    query_statistics<V, bf16>(args, w, at, batch, head, query0, queries);
  }
}

// A block of keys for a tile of queries: the item of the pipeline below
struct BackwardItem {
  int64_t at = -1, query0 = 0, width = 0;
  int64_t in_span = 0, key0 = 0, keys = 0;  // first key within the span, and overall
  float *dq = nullptr, *p = nullptr, *ds = nullptr, *pairs = nullptr;
  const float* bias = nullptr;  // of the head, from the tile's first query on
  float* dbias = nullptr;

  int64_t down() const { return ceil_div(keys, kPatch); }
  int64_t patches() const { return down() * (width / kPatch); }
};

// A span of keys: while vectors work on a patch of scores and dP, tiles multiply the next patch's and the
// previous item's contributions to dV, dK and dQ.
template <class V, class Tiles>
class BackwardPipeline {
 public:
  BackwardPipeline(const Attention& a, const AttentionSizes& s, const BackwardBuffers& w, int64_t k_stride)
      : a_(a), s_(s), w_(w), k_stride_(k_stride), wide_(ceil_div(s.d_pad, kPatch)) {}

  void push(BackwardItem after) {
    // the layout's space, in order: two patches of scores, one of dP, and twice the rest
    constexpr int64_t kRest = kKeyBlock * kQueryTile / 2;
    static_assert(3 * kSize + 6 * kRest == 2 * kKeyBlock * kQueryTile + 3 * kRest);
    after.p = w_.scores + 3 * kSize + (parity_ ^= 1) * 3 * kRest;
    after.ds = after.p + kRest;
    after.pairs = after.ds + kRest;
    if (now_.at >= 0) process(after);
    now_ = after;
  }
  // Call before dK, dV and dQ are read
  void finish() {
    push({});
    for (int64_t i = 0; i < outputs(before_); ++i) output(before_, i).template whole<Tiles>();
    before_ = {};
  }

 private:
  static constexpr int64_t kSize = kPatch * kPatch, Q = kQueryTile;

  void process(const BackwardItem& after) {
    if (!ready_) {
      scores(now_, 0, ring(0)).template whole<Tiles>();
      grads(now_, 0).template whole<Tiles>();
    }
    const int64_t patches = now_.patches(), left = outputs(before_);
    for (int64_t c = 0; c < patches; ++c) patch(after, c, left * c / patches, left * (c + 1) / patches);
    turn_ ^= patches & 1;
    ready_ = after.at >= 0;
    before_ = now_;
  }

  // Works on a patch while the tile unit computes the next one and outputs [first, last) of the previous item
  void patch(const BackwardItem& after, int64_t c, int64_t first, int64_t last) const {
    const int64_t key = c % now_.down() * kPatch, query = c / now_.down() * kPatch;
    const int64_t keys = std::min(kPatch, now_.keys - key),
                  queries = std::min(kPatch, a_.tq - now_.query0 - query);
    const int64_t in_bias = (now_.key0 + key) * a_.tq + query;
    if (now_.bias) add_bias(now_.bias + in_bias, a_.tq, a_.scale * kLog2e, keys, queries, ring(c), kPatch);
    mask_patch(a_, now_.query0 + query, now_.key0 + key, now_.key0 + now_.keys, ring(c));
    const bool own = c + 1 < now_.patches(), follows = own || after.at >= 0;
    const BackwardItem& next = own ? now_ : after;
    const int64_t next_patch = own ? c + 1 : 0;
    constexpr int64_t kSteps = 4, kKeys = kPatch / kSteps;
    for (int64_t step = 0; step < kSteps; ++step) {
      TileBlock block{};  // concurrent tile work; dP's patch replaces this one's
      if (step == 0 && follows) block = scores(next, next_patch, ring(c + 1));
      if (step > 0 && step < kSteps - 1 && first < last) block = output(before_, first++);
      if (step == kSteps - 1 && follows) block = grads(next, next_patch);
      if (block.m > 0) block.begin<Tiles>();
      const int64_t from = step * kKeys * kPatch, to = (key + step * kKeys) * Q + query;
      gradients<V>(kKeys, kPatch, a_.scale * kLog2e, w_.lse2 + now_.at * Q + query,
                   w_.delta + now_.at * Q + query, ring(c) + from, w_.scores + 2 * kSize + from,
                   reinterpret_cast<char*>(now_.p) + to * 2, reinterpret_cast<char*>(now_.ds) + to * 2,
                   now_.pairs + (key + step * kKeys) / 2 * Q + query);
      if (block.m > 0) block.end<Tiles>();
    }
    for (; first < last; ++first) output(before_, first).template whole<Tiles>();
    if (now_.dbias) add_rows(key, query, keys, queries, now_.dbias + in_bias);
  }

  // Adds a patch of dS to a bias's gradient
  void add_rows(int64_t key, int64_t query, int64_t keys, int64_t queries, float* dbias) const {
    for (int64_t k = 0; k < keys; ++k)
      for (int64_t i = 0; i < queries; ++i) {
        bf16 ds;
        std::memcpy(&ds, reinterpret_cast<const char*>(now_.ds) + ((key + k) * Q + query + i) * 2, 2);
        dbias[k * a_.tq + i] += to_float(ds);
      }
  }

  float* ring(int64_t c) const { return w_.scores + ((turn_ + c) & 1) * kSize; }

  // A patch of left x right: of K Q^T or V dO^T
  TileBlock product(const BackwardItem& i, int64_t c, const float* left, const float* right,
                    float* out) const {
    const int64_t key = c % i.down() * kPatch, query = c / i.down() * kPatch;
    return {kPatch,
            kPatch,
            s_.tile_lanes,
            left + (i.in_span + key) * s_.tile_lanes,
            s_.tile_lanes,
            right + i.at * w_.columns_stride + query,
            Q,
            out,
            kPatch,
            false};
  }
  TileBlock scores(const BackwardItem& i, int64_t c, float* out) const {
    return product(i, c, w_.k_rows, w_.q_columns, out);
  }
  TileBlock grads(const BackwardItem& i, int64_t c) const {
    return product(i, c, w_.v_rows, w_.do_columns, w_.scores + 2 * kSize);
  }

  int64_t outputs(const BackwardItem& i) const {
    return i.at < 0 ? 0 : wide_ * (2 * i.down() + i.width / kPatch);
  }
  // dV += P^T dO and dK += dS^T Q by rows of keys, then dQ^T += K^T dS^T
  TileBlock output(const BackwardItem& i, int64_t n) const {
    const int64_t across = n % wide_ * kPatch, row = n / wide_ * kPatch, rows = i.down() * kPatch;
    if (row < 2 * rows) {
      const bool dv = row < rows;
      const int64_t key = dv ? row : row - rows;
      return {kPatch,      s_.d_pad - across,
              i.width / 2, (dv ? i.p : i.ds) + key * Q / 2,
              Q / 2,       (dv ? w_.do_pairs : w_.q_pairs) + i.at * w_.pairs_stride + across,
              s_.d_pad,    (dv ? w_.dv : w_.dk) + (i.in_span + key) * s_.d_pad + across,
              s_.d_pad,    true};
    }
    const int64_t query = row - 2 * rows;
    return {s_.d_pad - across,
            kPatch,
            rows / 2,
            w_.k_pairs + across * k_stride_ + i.in_span / 2,
            k_stride_,
            i.pairs + query,
            Q,
            i.dq + across * Q + query,
            Q,
            true};
  }

  const Attention& a_;
  const AttentionSizes& s_;
  const BackwardBuffers& w_;
  int64_t k_stride_, wide_;
  BackwardItem before_, now_;
  bool ready_ = false;             // scores and dP of now_'s first patch are ready
  int64_t turn_ = 0, parity_ = 0;  // half of the ring with them; half of the rest that the last item uses
};

// units [first, last): unit = (batch * kv_heads + kv head) * key_spans + span
template <class V, class Tiles>
void attention_backward_tiles(const AttentionArgs& args, int64_t first, int64_t last, float* workspace) {
  const Attention& a = args.shape;
  const AttentionSizes s(a);
  const BackwardBuffers w(a, s, workspace);
  const int64_t tiles = s.group * s.query_tiles;
  int64_t packed = -1;
  float* dq = nullptr;
  if (a.dbias) std::fill_n(w.dbias, a.heads * a.tk * a.tq, 0.0f);
  Tiles::begin();
  for (int64_t unit = first; unit < last; ++unit) {
    const int64_t group = unit / s.key_spans, span = unit % s.key_spans;
    const int64_t batch = group / a.kv_heads, kv_head = group % a.kv_heads;
    if (packed != group) {
      packed = group;
      pack_tile_queries<V>(args, s, w, batch, kv_head);
      dq = w.dq[dq_slot(s, first, group)];
      std::fill_n(dq, tiles * w.dq_stride, 0.0f);
    }
    const int64_t span0 = span * s.key_span, span_keys = std::min(s.key_span, a.tk - span0);
    const int64_t rows = whole(span_keys, kTileKeys), k_stride = rows / 2;
    const int64_t origin = (batch * a.tk + span0) * a.ld_kv + kv_head * a.d;
    const char *k = element<bf16>(args.k, origin), *v = element<bf16>(args.v, origin);
    pack_tile_rows(k, a.ld_kv, span_keys, rows, a.d, s.tile_lanes, w.k_rows);
    pack_tile_transposed<V>(k, a.ld_kv, span_keys, rows, a.d, s.d_pad, k_stride, w.k_pairs);
    pack_tile_rows(v, a.ld_kv, span_keys, rows, a.d, s.tile_lanes, w.v_rows);
    std::fill_n(w.dk, rows * s.d_pad, 0.0f);
    std::fill_n(w.dv, rows * s.d_pad, 0.0f);
    BackwardPipeline<V, Tiles> pipeline(a, s, w, k_stride);
    for (int64_t at = 0; at < tiles; ++at) {
      const int64_t query0 = at % s.query_tiles * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
      const int64_t end = std::min(span0 + span_keys, end_of_keys(a, query0 + queries - 1));
      for (int64_t key0 = std::max(span0, first_block(a, query0)); key0 < end; key0 += kKeyBlock)
        pipeline.push({.at = at,
                       .query0 = query0,
                       .width = whole(queries, kTileKeys),
                       .in_span = key0 - span0,
                       .key0 = key0,
                       .keys = std::min(kKeyBlock, end - key0),
                       .dq = dq + at * w.dq_stride,
                       .bias = bias_at(a, a.bias, kv_head * s.group + at / s.query_tiles, query0),
                       .dbias = a.dbias ? bias_at(a, w.dbias, kv_head * s.group + at / s.query_tiles, query0)
                                        : nullptr});
    }
    pipeline.finish();
    write_span<V, bf16>(args, s, w, batch, kv_head, span0, span_keys);
    if (span == s.key_spans - 1 && first <= group * s.key_spans)
      for (int64_t at = 0; at < tiles; ++at)
        write_dq_tile<V, bf16>(args, s, group, at, dq + at * w.dq_stride);
  }
  Tiles::end();
}
