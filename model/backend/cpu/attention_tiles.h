// Attention in bf16 on tiles (AMX): the blocks and layouts of attention_forward.h and attention_backward.h,
// their sizes rounded up to whole tiles with zeros. Included like them, after them and tiles.h.
//
// What differs is that products take whole tiles, V and K are read transposed (rows of d, pairs of keys), and
// that the softmax passes over the scores once: it exponentiates against the maximum so far and begins again
// only where a score exceeds that by kLead, which after a query's first block seldom happens. Until then
// nothing that was summed has to shrink: exponentials of up to 2^kLead are as exact as others.

constexpr float kLead = 16.0f;     // in units of log2
constexpr int64_t kTileKeys = 32;  // keys or queries: a tile's 16 pairs

constexpr int64_t whole(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// rows [n][width] of pairs, zeros behind d and in the rows up to `rows`
inline void pack_tile_rows(const char* src, int64_t ld, int64_t n, int64_t rows, int64_t d, int64_t width,
                           float* dst) {
  for (int64_t i = 0; i < rows; ++i) {
    char* row = reinterpret_cast<char*>(dst + i * width);
    const int64_t bytes = i < n ? d * 2 : 0;
    if (bytes > 0) std::memcpy(row, src + i * ld * 2, bytes);
    std::memset(row + bytes, 0, width * 4 - bytes);
  }
}

// columns [width][64] of n <= 64 rows, zeros behind d
inline void pack_tile_columns(const char* src, int64_t ld, int64_t n, int64_t d, int64_t width, float* dst) {
  pack_columns<bf16>(src, ld, n, d, dst);
  const int64_t used = ceil_div(d, 2);
  std::memset(dst + used * kQueryTile, 0, (width - used) * kQueryTile * 4);
}

// pairs [rows / 2][width], zeros behind row n: pack_pairs, in whole tiles
template <class V>
inline void pack_tile_pairs(const char* src, int64_t ld, int64_t n, int64_t rows, int64_t d, int64_t width,
                            float* dst) {
  pack_pairs<V, bf16>(src, ld, n, d, width, dst);
  const int64_t used = ceil_div(n, 2);
  std::memset(dst + used * width, 0, (rows / 2 - used) * width * 4);
}

// The transpose of that, [d_pad][stride]: two rows' elements side by side, zeros beyond d and in the columns
// up to rows / 2
template <class V>
inline void pack_tile_transposed(const char* src, int64_t ld, int64_t n, int64_t rows, int64_t d,
                                 int64_t d_pad, int64_t stride, float* dst) {
  for (int64_t i = 0; i < rows; i += 8) {  // eight rows: four lanes across
    alignas(64) float pairs[4 * 512];
    for (int64_t c = 0; c < d; c += 512) {
      const int64_t width = std::min<int64_t>(512, whole(d - c, 4));
      pack_tile_pairs<V>(src + (i * ld + c) * 2, ld, std::clamp<int64_t>(n - i, 0, 8), 8,
                         std::min<int64_t>(512, d - c), width, pairs);
      for (int64_t j = 0; j < width; j += 4) {
        Four x[4];
        for (int64_t r = 0; r < 4; ++r) x[r] = load_four(pairs + r * width + j);
        transpose_four(x);
        for (int64_t r = 0; r < 4 && c + j + r < d_pad; ++r)
          std::memcpy(dst + (c + j + r) * stride + i / 2, &x[r], sizeof(Four));
      }
    }
  }
  for (int64_t c = whole(d, 4); c < d_pad; ++c) std::memset(dst + c * stride, 0, rows / 2 * 4);
}

// Scores of keys that are none: their probabilities are 0.
inline void hide_rows(int64_t keys, int64_t rows, float* scores) {
  for (int64_t i = keys * kQueryTile; i < rows * kQueryTile; ++i) scores[i] = kMasked;
}

// One pass: P^T relative to `shift`, in pairs of keys, its sums and the scores' largest; N vectors of queries
template <class V, int N>
[[gnu::always_inline]] inline void exponentials(int64_t keys, float factor, const float* scores,
                                                float* probabilities, const float* row_max,
                                                typename V::Reg* sum, typename V::Reg* top) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  const Reg f = V::set1(factor);
  Reg shift[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) {
    shift[v] = V::sub(V::zero(), V::load(row_max + v * W));
    sum[v] = V::zero();
    top[v] = V::set1(-3e38f);
  }
  for (int64_t k = 0; k < keys; k += 2)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const float* s = scores + k * kQueryTile + v * W;
      const Reg s0 = V::load(s), s1 = V::load(s + kQueryTile);
      top[v] = V::max(V::max(top[v], s0), s1);
      const Reg p0 = exp2<V, 4>(V::fma(s0, f, shift[v])), p1 = exp2<V, 4>(V::fma(s1, f, shift[v]));
      sum[v] = V::add(sum[v], V::add(p0, p1));
      V::store_pairs(probabilities + k / 2 * kQueryTile + v * W, V::round_two(p0, p1));
    }
}

// As online_softmax, of `first` block or a later one; whether what was summed before has to shrink (by
// `rescale`). N vectors of queries
template <class V, int N>
[[gnu::always_inline]] inline bool lazy_softmax_columns(int64_t keys, bool first, float factor,
                                                        const float* scores, float* probabilities,
                                                        float* row_max, float* row_sum, float* rescale) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  Reg sum[N], top[N];
  bool again = first;
  if (first) {  // nothing yet to exponentiate against
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) top[v] = V::set1(-3e38f);
    for (int64_t k = 0; k < keys; ++k)
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) top[v] = V::max(top[v], V::load(scores + k * kQueryTile + v * W));
  } else {
    exponentials<V, N>(keys, factor, scores, probabilities, row_max, sum, top);
    for (int v = 0; v < N; ++v)
      again |=
          V::any_above(V::mul(top[v], V::set1(factor)), V::add(V::load(row_max + v * W), V::set1(kLead)));
  }
  if (again) {
    for (int v = 0; v < N; ++v) {
      const Reg old = V::load(row_max + v * W), larger = V::max(old, V::mul(top[v], V::set1(factor)));
      const Reg shrink = exp2<V>(V::sub(old, larger));
      V::store(row_max + v * W, larger);
      V::store(rescale + v * W, shrink);
      V::store(row_sum + v * W, V::mul(V::load(row_sum + v * W), shrink));
    }
    exponentials<V, N>(keys, factor, scores, probabilities, row_max, sum, top);
  }
  for (int v = 0; v < N; ++v) V::store(row_sum + v * W, V::add(V::load(row_sum + v * W), sum[v]));
  return again;
}

// scores [keys][64] -> probabilities, and what was summed before shrinks: o_transposed [d][64] and row_sum
template <class V>
[[gnu::noinline]] void lazy_softmax(int64_t keys, int64_t width, bool first, float factor, int64_t d,
                                    const ForwardBuffers& w) {
  constexpr int N = 64 / V::kWidth < 4 ? 64 / V::kWidth : 4;
  for (int64_t j = 0; j < width;) {
    const bool many = j + N * V::kWidth <= width;
    const int64_t step = many ? N * V::kWidth : V::kWidth;
    const bool shrinks =
        many ? lazy_softmax_columns<V, N>(keys, first, factor, w.scores + j, w.probabilities + j,
                                          w.row_max + j, w.row_sum + j, w.rescale + j)
             : lazy_softmax_columns<V, 1>(keys, first, factor, w.scores + j, w.probabilities + j,
                                          w.row_max + j, w.row_sum + j, w.rescale + j);
    if (shrinks && !first)
      for (int64_t c = 0; c < d; ++c)
        for (int64_t i = j; i < j + step; i += V::kWidth) {
          float* o = w.o_transposed + c * kQueryTile + i;
          V::store(o, V::mul(V::load(o), V::load(w.rescale + i)));
        }
    j += step;
  }
}

// units [first, last): unit = (batch * heads + head) * query_tiles + tile
template <class V, class Tiles>
void attention_forward_tiles(const AttentionArgs& args, int64_t first, int64_t last, float* workspace) {
  const Attention& a = args.shape;
  const AttentionSizes s(a);
  const ForwardBuffers w(a, s, workspace);
  const float factor = a.scale * kLog2e;
  const int64_t all_keys = whole(a.tk, kTileKeys), v_stride = all_keys / 2;
  int64_t packed = -1;
  Tiles::begin();
  for (int64_t unit = first; unit < last; ++unit) {
    const int64_t tile = unit % s.query_tiles, batch = unit / s.query_tiles / a.heads;
    const int64_t head = unit / s.query_tiles % a.heads, kv_head = head / s.group;
    if (packed != batch * a.kv_heads + kv_head) {
      packed = batch * a.kv_heads + kv_head;
      const int64_t origin = batch * a.tk * a.ld_kv + kv_head * a.d;
      pack_tile_rows(element<bf16>(args.k, origin), a.ld_kv, a.tk, all_keys, a.d, s.tile_lanes, w.k_rows);
      pack_tile_transposed<V>(element<bf16>(args.v, origin), a.ld_kv, a.tk, all_keys, a.d, s.d_pad, v_stride,
                              w.v_pairs);
    }
    const int64_t query0 = tile * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
    const int64_t width = tile_width(queries), row0 = batch * a.tq + query0;
    pack_tile_columns(element<bf16>(args.q, row0 * a.ld_q + head * a.d), a.ld_q, queries, a.d, s.tile_lanes,
                      w.q_columns);
    std::fill_n(w.row_max, kQueryTile, kNothingYet);
    std::fill_n(w.row_sum, kQueryTile, 0.0f);

    const int64_t seen = visible_keys(a, query0 + queries - 1);
    const int64_t seen_by_all = visible_keys(a, query0);
    if (seen == 0) std::fill_n(w.o_transposed, s.d_pad * kQueryTile, 0.0f);
    for (int64_t key0 = 0; key0 < seen; key0 += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, seen - key0), rows = whole(keys, kTileKeys);
      tile_product<Tiles>(rows, width, s.tile_lanes, w.k_rows + key0 * s.tile_lanes, s.tile_lanes,
                          w.q_columns, kQueryTile, w.scores, kQueryTile, false);
      if (key0 + keys > seen_by_all) mask_causal(a, query0, key0, keys, w.scores);
      weigh_last(a, key0, keys, w.scores);
      hide_rows(keys, rows, w.scores);
      lazy_softmax<V>(rows, width, key0 == 0, factor, s.d_pad, w);
      tile_product<Tiles>(s.d_pad, width, rows / 2, w.v_pairs + key0 / 2, v_stride, w.probabilities,
                          kQueryTile, w.o_transposed, kQueryTile, key0 > 0);
    }
    write_output<V, bf16>(args, w, batch, head, query0, queries);
  }
  Tiles::end();
}

// ---- backward ----

// scores and dP -> P in rows, dS in rows and in pairs of keys, in one pass; N vectors of queries
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
  for (int64_t k = 0; k < keys; k += 2)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const int64_t at = k * kQueryTile + v * W, next = at + kQueryTile;
      const Reg p0 = exp2<V, 4>(V::fma(V::load(scores + at), f, shift[v]));
      const Reg p1 = exp2<V, 4>(V::fma(V::load(scores + next), f, shift[v]));
      const typename V::Rounded p = V::round_two(p0, p1);
      V::store_even(p_rows + at * 2, p);
      V::store_odd(p_rows + next * 2, p);
      const Reg d0 = V::mul(p0, V::sub(V::load(grads + at), minus[v]));
      const Reg d1 = V::mul(p1, V::sub(V::load(grads + next), minus[v]));
      const typename V::Rounded ds = V::round_two(d0, d1);
      V::store_even(ds_rows + at * 2, ds);
      V::store_odd(ds_rows + next * 2, ds);
      V::store_pairs(ds_pairs + k / 2 * kQueryTile + v * W, ds);
    }
}

template <class V>
[[gnu::noinline]] void gradients(int64_t keys, int64_t width, float factor, const float* lse2,
                                 const float* delta, const BackwardBuffers& w) {
  constexpr int N = 2;
  char *p = reinterpret_cast<char*>(w.p_rows), *ds = reinterpret_cast<char*>(w.ds_rows);
  int64_t j = 0;
  for (; j + N * V::kWidth <= width; j += N * V::kWidth)
    gradient_columns<V, N>(keys, factor, lse2 + j, delta + j, w.scores + j, w.grads + j, p + j * 2,
                           ds + j * 2, w.ds_pairs + j);
  for (; j < width; j += V::kWidth)
    gradient_columns<V, 1>(keys, factor, lse2 + j, delta + j, w.scores + j, w.grads + j, p + j * 2,
                           ds + j * 2, w.ds_pairs + j);
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

// One tile: queries of tile `at`, keys key0 … of the span that begins at span0
template <class V, class Tiles>
void backward_tiles(const Attention& a, const AttentionSizes& s, const BackwardBuffers& w, int64_t at,
                    int64_t query0, int64_t queries, int64_t span0, int64_t key0, int64_t keys,
                    int64_t k_stride, float* dq) {
  constexpr int64_t Q = kQueryTile;
  const int64_t rows = whole(keys, kTileKeys), width = whole(queries, kTileKeys), in_span = key0 - span0;
  const float *k = w.k_rows + in_span * s.tile_lanes, *v = w.v_rows + in_span * s.tile_lanes;
  tile_product<Tiles>(rows, width, s.tile_lanes, k, s.tile_lanes, w.q_columns + at * w.columns_stride, Q,
                      w.scores, Q, false);
  if (key0 + keys > visible_keys(a, query0)) mask_causal(a, query0, key0, keys, w.scores);
  weigh_last(a, key0, keys, w.scores);
  hide_rows(keys, rows, w.scores);
  tile_product<Tiles>(rows, width, s.tile_lanes, v, s.tile_lanes, w.do_columns + at * w.columns_stride, Q,
                      w.grads, Q, false);
  gradients<V>(rows, width, a.scale * kLog2e, w.lse2 + at * Q, w.delta + at * Q, w);
  tile_product<Tiles>(rows, s.d_pad, width / 2, w.p_rows, Q / 2, w.do_pairs + at * w.pairs_stride, s.d_pad,
                      w.dv + in_span * s.d_pad, s.d_pad, true);
  tile_product<Tiles>(rows, s.d_pad, width / 2, w.ds_rows, Q / 2, w.q_pairs + at * w.pairs_stride, s.d_pad,
                      w.dk + in_span * s.d_pad, s.d_pad, true);
  tile_product<Tiles>(s.d_pad, width, rows / 2, w.k_pairs + in_span / 2, k_stride, w.ds_pairs, Q, dq, Q,
                      true);
}

// units [first, last): unit = (batch * kv_heads + kv head) * key_spans + span
template <class V, class Tiles>
void attention_backward_tiles(const AttentionArgs& args, int64_t first, int64_t last, float* workspace) {
  const Attention& a = args.shape;
  const AttentionSizes s(a);
  const BackwardBuffers w(a, s, workspace);
  const int64_t tiles = s.group * s.query_tiles;
  int64_t packed = -1;
  float* dq = nullptr;
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
    for (int64_t at = 0; at < tiles; ++at) {
      const int64_t query0 = at % s.query_tiles * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
      const int64_t end = std::min(span0 + span_keys, visible_keys(a, query0 + queries - 1));
      for (int64_t key0 = span0; key0 < end; key0 += kKeyBlock)
        backward_tiles<V, Tiles>(a, s, w, at, query0, queries, span0, key0, std::min(kKeyBlock, end - key0),
                                 k_stride, dq + at * w.dq_stride);
    }
    write_span<V, bf16>(args, s, w, batch, kv_head, span0, span_keys);
    if (span == s.key_spans - 1 && first <= group * s.key_spans)
      for (int64_t at = 0; at < tiles; ++at)
        write_dq_tile<V, bf16>(args, s, group, at, dq + at * w.dq_stride);
  }
  Tiles::end();
}
