// One thread's share of attention_backward. Included like attention_forward.h, after it.
//
// A unit is a span of keys of one (batch, kv head). It sums its dK and dV over all queries (and query heads
// of the group), so they are written once; dQ is summed over units. A thread's units are consecutive, so it
// completes most groups' dQ alone, in slot 1. A group shared with other threads stays in its slots (0 for the
// thread's first group, 1 for its last) until attention_dq_shared adds them in thread order. No atomics, and
// the same bits for the same number of threads.
//
// Queries run across the vectors, as in forward: P^T = exp(K Q^T - lse), dP^T = V dO^T, dS^T = P^T (dP^T -
// delta), dV += P^T dO, dK += dS^T Q, dQ^T += K^T dS^T.

// Slot of group `group` in the thread that owns units [first, last)
inline int dq_slot(const AttentionSizes& s, int64_t first, int64_t group) {
  return first / s.key_spans == group ? 0 : 1;
}

// scores -> P (f32 in place, and bf16 rows), N vectors of queries. With f16 and tf32 the scores' gradient
// also uses the rounded P, since only that is stored.
template <class V, class E, int N>
[[gnu::always_inline]] inline void probability_columns(int64_t keys, float factor, const float* lse2,
                                                       float* scores, char* p_rows) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  const Reg f = V::set1(factor);
  Reg shift[N], p[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) shift[v] = V::sub(V::zero(), V::load(lse2 + v * W));
  for (int64_t k = 0; k < keys; ++k) {
    exponentials_of<V, E, kScaledQueries<E>>(scores + k * kQueryTile, f, shift, p);
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const int64_t at = k * kQueryTile + v * W;
      V::store(scores + at, as_operand<V, E>(p[v]));
      if constexpr (kPackOf<E> == 2) V::store_bf16(p_rows + at * 2, p[v]);
    }
  }
}

template <class V, class E>
[[gnu::noinline]] void probabilities(int64_t keys, int64_t width, float factor, const float* lse2,
                                     float* scores, float* p_rows) {
  constexpr int N = kPackOf<E> == 1 ? 4 : V::kTileVectors, W = V::kWidth;
  char* rows = reinterpret_cast<char*>(p_rows);
  int64_t j = 0;
  for (; j + N * W <= width; j += N * W)
    probability_columns<V, E, N>(keys, factor, lse2 + j, scores + j, rows + j * 2);
  for (; j < width; j += W) probability_columns<V, E, 1>(keys, factor, lse2 + j, scores + j, rows + j * 2);
}

// grads: dP -> dS (f32 in place, or bf16 rows and pairs), N vectors of queries
template <class V, class E, int N>
[[gnu::always_inline]] inline void score_gradient_columns(int64_t keys, const float* delta, const float* p,
                                                          float* grads, char* ds_rows, float* ds_pairs) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  constexpr int64_t kPack = kPackOf<E>;
  Reg shift[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) shift[v] = V::load(delta + v * W);
  int64_t k = 0;
  for (; k + kPack <= keys; k += kPack)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const int64_t at = k * kQueryTile + v * W;
      const Reg even = V::mul(V::load(p + at), V::sub(V::load(grads + at), shift[v]));
      if constexpr (kPack == 1) {
        V::store(grads + at, as_operand<V, E>(even));
      } else {
        const Reg next = V::load(grads + at + kQueryTile);
        const Reg odd = V::mul(V::load(p + at + kQueryTile), V::sub(next, shift[v]));
        const typename V::Rounded both = V::round_two(even, odd);
        V::store_even(ds_rows + at * 2, both);
        V::store_odd(ds_rows + (at + kQueryTile) * 2, both);
        V::store_pairs(ds_pairs + k / 2 * kQueryTile + v * W, both);
      }
    }
  if constexpr (kPack == 2) {
    if (k < keys)  // last key of an odd number
      for (int v = 0; v < N; ++v) {
        const int64_t at = k * kQueryTile + v * W;
        const Reg even = V::mul(V::load(p + at), V::sub(V::load(grads + at), shift[v]));
        const typename V::Rounded both = V::round_two(even, V::zero());
        V::store_even(ds_rows + at * 2, both);
        V::store_pairs(ds_pairs + k / 2 * kQueryTile + v * W, both);
      }
  }
}

template <class V, class E>
[[gnu::noinline]] void score_gradients(int64_t keys, int64_t width, const float* delta, const float* p,
                                       float* grads, float* ds_rows, float* ds_pairs) {
  char* rows = reinterpret_cast<char*>(ds_rows);
  int64_t j = 0;
  for (; j + 4 * V::kWidth <= width; j += 4 * V::kWidth)
    score_gradient_columns<V, E, 4>(keys, delta + j, p + j, grads + j, rows + j * 2, ds_pairs + j);
  for (; j < width; j += V::kWidth)
    score_gradient_columns<V, E, 1>(keys, delta + j, p + j, grads + j, rows + j * 2, ds_pairs + j);
}

template <class V, class E>
float row_product(const char* x, const char* y, int64_t d) {
  typename V::Reg sum = V::zero();
  for_vectors<V>(
      d, [&](int64_t j, int64_t n) __attribute__((always_inline)) {
        const typename V::Reg a = load_element_n<V, E>(x + j * sizeof(E), n);
        sum = V::fma(a, load_element_n<V, E>(y + j * sizeof(E), n), sum);
      });
  return V::sum(sum);
}

// lse and delta of one tile
template <class V, class E>
void query_statistics(const AttentionArgs& args, const BackwardBuffers& w, int64_t at, int64_t batch,
                      int64_t head, int64_t query0, int64_t queries) {
  const Attention& a = args.shape;
  const int64_t row0 = batch * a.tq + query0;
  const char* d_o = element<E>(args.d_o, row0 * a.ld_o + head * a.d);
  const char* o = element<E>(args.o, row0 * a.ld_o + head * a.d);
  const float* lse = args.lse + (batch * a.heads + head) * a.tq + query0;
  for (int64_t i = 0; i < kQueryTile; ++i) {
    const bool sees = i < queries && lse[i] > -std::numeric_limits<float>::infinity();
    w.lse2[at * kQueryTile + i] = sees ? lse[i] * kLog2e : -kNothingYet;  // P = 0 for the rest
    w.delta[at * kQueryTile + i] =
        i < queries ? row_product<V, E>(element<E>(d_o, i * a.ld_o), element<E>(o, i * a.ld_o), a.d) : 0.0f;
  }
}

// Packs all queries of one (batch, kv head): Q, dO, lse, delta
template <class V, class E>
void pack_queries(const AttentionArgs& args, const AttentionSizes& s, const BackwardBuffers& w, int64_t batch,
                  int64_t kv_head) {
  const Attention& a = args.shape;
  for (int64_t g = 0; g < s.group; ++g)
    for (int64_t tile = 0; tile < s.query_tiles; ++tile) {
      const int64_t head = kv_head * s.group + g, at = g * s.query_tiles + tile;
      const int64_t query0 = tile * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
      const int64_t row0 = batch * a.tq + query0;
      const char* q = element<E>(args.q, row0 * a.ld_q + head * a.d);
      const char* d_o = element<E>(args.d_o, row0 * a.ld_o + head * a.d);
      pack_columns<E>(q, a.ld_q, queries, a.d, w.q_columns + at * w.columns_stride);
      scale_queries<V, E>(a, s.d_lanes * kQueryTile, w.q_columns + at * w.columns_stride);
      pack_columns<E>(d_o, a.ld_o, queries, a.d, w.do_columns + at * w.columns_stride);
      pack_pairs<V, E>(q, a.ld_q, queries, a.d, s.d_pad, w.q_pairs + at * w.pairs_stride);
      pack_pairs<V, E>(d_o, a.ld_o, queries, a.d, s.d_pad, w.do_pairs + at * w.pairs_stride);
      query_statistics<V, E>(args, w, at, batch, head, query0, queries);
    }
}

// Adds dS^T = P^T (dP^T - delta) to a bias's gradient, rows of keys `ld` apart
inline void add_to_dbias(int64_t keys, int64_t queries, const float* p, const float* dp, const float* delta,
                         float* dbias, int64_t ld) {
  for (int64_t k = 0; k < keys; ++k)
    for (int64_t i = 0; i < queries; ++i)
      dbias[k * ld + i] += p[k * kQueryTile + i] * (dp[k * kQueryTile + i] - delta[i]);
}

// One tile: queries of tile `at` (first query query0), keys from key0 on of the span that begins at span0.
// `bias` and `dbias` begin at the head's first key and this query.
template <class V, class Dot>
void backward_tile(const Attention& a, const AttentionSizes& s, const BackwardBuffers& w, int64_t at,
                   int64_t query0, int64_t queries, int64_t span0, int64_t key0, int64_t keys, float* dq,
                   const float* bias, float* dbias) {
  constexpr int kPack = Dot::kPack;
  using E = typename Dot::Element;
  constexpr int64_t Q = kQueryTile;
  const int64_t width = tile_width(queries);
  const int64_t in_span = key0 - span0;
  const float* q_columns = w.q_columns + at * w.columns_stride;
  const float* do_columns = w.do_columns + at * w.columns_stride;
  const float* q_pairs = w.q_pairs + at * w.pairs_stride;
  const float* do_pairs = w.do_pairs + at * w.pairs_stride;
  const float factor = score_factor<E>(a);
  alignas(64) float shift[Q];
  if constexpr (kScaledQueries<E>) negate<V>(Q, w.lse2 + at * Q, shift);
  matmul_tile<V, Dot, false>(keys, width, s.d_lanes, w.k_rows + in_span * s.d_lanes, s.d_lanes, q_columns, Q,
                             w.scores, Q, kScaledQueries<E> ? Into::kAddRow : Into::kStore, shift);
  if (bias) add_bias(bias + key0 * a.tq, a.tq, factor, keys, queries, w.scores, Q);
  if (hides_some(a, query0, queries, key0, keys)) mask_hidden(a, query0, Q, key0, keys, w.scores, Q);
  weigh_last(a, factor, Q, key0, keys, w.scores, Q);
  probabilities<V, E>(keys, width, factor, w.lse2 + at * Q, w.scores, w.p_rows);
  const int64_t depth = ceil_div(queries, kPack);
  matmul_tile<V, Dot, false>(keys, s.d_pad, depth, w.p_rows, Q / kPack, do_pairs, s.d_pad,
                             w.dv + in_span * s.d_pad, s.d_pad, Into::kAdd);
  matmul_tile<V, Dot, false>(keys, width, s.d_lanes, w.v_rows + in_span * s.d_lanes, s.d_lanes, do_columns, Q,
                             w.grads, Q, Into::kStore);
  if (dbias) add_to_dbias(keys, queries, w.scores, w.grads, w.delta + at * Q, dbias + key0 * a.tq, a.tq);
  score_gradients<V, E>(keys, width, w.delta + at * Q, w.scores, w.grads, w.ds_rows, w.ds_pairs);
  matmul_tile<V, Dot, false>(keys, s.d_pad, depth, w.ds_rows, Q / kPack, q_pairs, s.d_pad,
                             w.dk + in_span * s.d_pad, s.d_pad, Into::kAdd);
  matmul_tile<V, Dot, true>(a.d, width, ceil_div(keys, kPack), w.k_pairs + in_span / kPack * a.d, a.d,
                            w.ds_pairs, Q, dq, Q, Into::kAdd);
}

template <class V, class E>
void write_dq_tile(const AttentionArgs& args, const AttentionSizes& s, int64_t group, int64_t at,
                   const float* dq) {
  const Attention& a = args.shape;
  const int64_t batch = group / a.kv_heads, head = group % a.kv_heads * s.group + at / s.query_tiles;
  const int64_t query0 = at % s.query_tiles * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
  float scale[kQueryTile];
  std::fill_n(scale, kQueryTile, a.scale);
  char* out = static_cast<char*>(args.dq) +
              ((batch * a.tq + query0) * args.ld_dq + head * a.d) * static_cast<int64_t>(sizeof(E));
  unpack_transposed<V, E>(dq, scale, queries, a.d, out, args.ld_dq);
}

// dK and dV of one span
template <class V, class E>
void write_span(const AttentionArgs& args, const AttentionSizes& s, const BackwardBuffers& w, int64_t batch,
                int64_t kv_head, int64_t span0, int64_t span_keys) {
  const Attention& a = args.shape;
  const int64_t out =
      ((batch * a.tk + span0) * args.ld_dkv + kv_head * a.d) * static_cast<int64_t>(sizeof(E));
  unpack_rows<V, E>(w.dk, s.d_pad, a.scale, span_keys, a.d, static_cast<char*>(args.dk) + out, args.ld_dkv);
  unpack_rows<V, E>(w.dv, s.d_pad, 1.0f, span_keys, a.d, static_cast<char*>(args.dv) + out, args.ld_dkv);
}

// units [first, last): unit = (batch * kv_heads + kv head) * key_spans + span
template <class V, class Dot>
void attention_backward_part(const AttentionArgs& args, int64_t first, int64_t last, float* workspace) {
  using E = typename Dot::Element;
  const Attention& a = args.shape;
  const AttentionSizes s(a);
  const BackwardBuffers w(a, s, workspace);
  const int64_t tiles = s.group * s.query_tiles;
  if (a.dbias) std::fill_n(w.dbias, a.heads * a.tk * a.tq, 0.0f);
  int64_t packed = -1;
  float* dq = nullptr;
  for (int64_t unit = first; unit < last; ++unit) {
    const int64_t group = unit / s.key_spans, span = unit % s.key_spans;
    const int64_t batch = group / a.kv_heads, kv_head = group % a.kv_heads;
    if (packed != group) {
      packed = group;
      pack_queries<V, E>(args, s, w, batch, kv_head);
      dq = w.dq[dq_slot(s, first, group)];
      std::fill_n(dq, tiles * w.dq_stride, 0.0f);
    }
    const int64_t span0 = span * s.key_span, span_keys = std::min(s.key_span, a.tk - span0);
    const int64_t origin = (batch * a.tk + span0) * a.ld_kv + kv_head * a.d;
    pack_rows<V, E>(element<E>(args.k, origin), a.ld_kv, span_keys, a.d, w.k_rows);
    pack_pairs<V, E>(element<E>(args.k, origin), a.ld_kv, span_keys, a.d, a.d, w.k_pairs);
    pack_rows<V, E>(element<E>(args.v, origin), a.ld_kv, span_keys, a.d, w.v_rows);
    std::fill_n(w.dk, span_keys * s.d_pad, 0.0f);
    std::fill_n(w.dv, span_keys * s.d_pad, 0.0f);
    for (int64_t at = 0; at < tiles; ++at) {
      const int64_t query0 = at % s.query_tiles * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
      const int64_t head = kv_head * s.group + at / s.query_tiles;
      const int64_t end = std::min(span0 + span_keys, end_of_keys(a, query0 + queries - 1));
      for (int64_t key0 = std::max(span0, first_block(a, query0)); key0 < end; key0 += kKeyBlock)
        backward_tile<V, Dot>(a, s, w, at, query0, queries, span0, key0, std::min(kKeyBlock, end - key0),
                              dq + at * w.dq_stride, bias_at(a, a.bias, head, query0),
                              a.dbias ? bias_at(a, w.dbias, head, query0) : nullptr);
    }
    write_span<V, E>(args, s, w, batch, kv_head, span0, span_keys);
    if (span == s.key_spans - 1 && first <= group * s.key_spans)
      for (int64_t at = 0; at < tiles; ++at) write_dq_tile<V, E>(args, s, group, at, dq + at * w.dq_stride);
  }
}

// dQ of one tile of a group whose units ran on several threads: the sum of their slots, into parts[0]
template <class V, class Dot>
void attention_dq_shared(const AttentionArgs& args, int64_t group, int64_t at, float* const* parts,
                         int count) {
  const AttentionSizes s(args.shape);
  const int64_t n = args.shape.d * kQueryTile, stride = BackwardBuffers(args.shape, s, nullptr).dq_stride;
  float* sum = parts[0] + at * stride;
  for (int i = 1; i < count; ++i) {
    const float* part = parts[i] + at * stride;
    for (int64_t j = 0; j < n; j += V::kWidth) V::store(sum + j, V::add(V::load(sum + j), V::load(part + j)));
  }
  write_dq_tile<V, typename Dot::Element>(args, s, group, at, sum);
}
