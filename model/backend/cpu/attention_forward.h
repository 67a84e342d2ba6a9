// One thread's share of attention_forward: the online softmax of flash attention (Dao et al. 2022),
// transposed. Included like simd_avx512.h: inside an unnamed namespace, after matmul_tile.h and
// attention_pack.h.
//
// For 64 queries and 96 keys at a time: S^T[key, query] = K Q^T, with the queries across the vectors. So
// maximum, exponential and sum over keys need no shuffles, K and V are read by broadcast as they lie, and P^T
// is the operand of O^T[d, query] += V^T P^T as it stands. Only Q is transposed, once per tile.

constexpr float kLog2e = 1.44269504f;
constexpr float kMasked = -1e38f;  // finite, so that no inf - inf arises; 2^kMasked = 0
constexpr float kNothingYet =
    -1e30f;  // running maximum before the first key: far above kMasked, below any score

// Hide the keys that queries query0 … must not see in S^T rows key0 … key0 + keys - 1
inline void mask_causal(const Attention& a, int64_t query0, int64_t key0, int64_t keys, float* scores) {
  for (int64_t k = 0; k < keys; ++k) {
    const int64_t first_seeing = std::clamp<int64_t>(key0 + k - (a.tk - a.tq) - query0, 0, kQueryTile);
    for (int64_t i = 0; i < first_seeing; ++i) scores[k * kQueryTile + i] = kMasked;
  }
}

// The last key's probability comes last_counts times: its score in S^T rows key0 … key0 + keys - 1 is larger
// by the logarithm.
inline void weigh_last(const Attention& a, int64_t key0, int64_t keys, float* scores) {
  if (a.last_counts == 1 || key0 + keys < a.tk) return;
  const float more = std::log(static_cast<float>(a.last_counts)) / a.scale;
  for (int64_t i = 0; i < kQueryTile; ++i) scores[(keys - 1) * kQueryTile + i] += more;
}

// N vectors of queries: the online softmax below
template <class V, class E, int N>
[[gnu::always_inline]] inline void softmax_columns(int64_t keys, float factor, const float* scores,
                                                   float* probabilities, float* row_max, float* row_sum,
                                                   float* rescale) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  constexpr int64_t kPack = kPackOf<E>;
  constexpr int kDegree = kPack == 1 ? 6 : 4;
  const Reg f = V::set1(factor);
  Reg top[N], sum[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) top[v] = V::set1(-3e38f);
  for (int64_t k = 0; k < keys; ++k)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) top[v] = V::max(top[v], V::load(scores + k * kQueryTile + v * W));
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) {
    const Reg old = V::load(row_max + v * W);
    top[v] = V::max(old, V::mul(top[v], f));
    const Reg shrink = exp2<V>(V::sub(old, top[v]));
    V::store(rescale + v * W, shrink);
    V::store(row_max + v * W, top[v]);
    sum[v] = V::mul(V::load(row_sum + v * W), shrink);
    top[v] = V::sub(V::zero(), top[v]);
  }
  int64_t k = 0;
  for (; k + kPack <= keys; k += kPack) {
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const float* s = scores + k * kQueryTile + v * W;
      const Reg p = exp2<V, kDegree>(V::fma(V::load(s), f, top[v]));
      if constexpr (kPack == 1) {
        sum[v] = V::add(sum[v], p);
        V::store(probabilities + k * kQueryTile + v * W, as_operand<V, E>(p));
      } else {
        const Reg next = exp2<V, kDegree>(V::fma(V::load(s + kQueryTile), f, top[v]));
        sum[v] = V::add(sum[v], V::add(p, next));
        V::store_pairs(probabilities + k / 2 * kQueryTile + v * W, V::round_two(p, next));
      }
    }
  }
  if (k < keys) {  // bf16 only: the last key alone
    for (int v = 0; v < N; ++v) {
      const Reg p = exp2<V, kDegree>(V::fma(V::load(scores + k * kQueryTile + v * W), f, top[v]));
      sum[v] = V::add(sum[v], p);
      V::store_pairs(probabilities + k / 2 * kQueryTile + v * W, V::round_two(p, V::zero()));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) V::store(row_sum + v * W, sum[v]);
}

// scores [keys][64] -> probabilities (lanes) relative to the running maximum; updates row_max (in units of
// log2), row_sum and rescale, the factor by which everything summed before has to shrink. width: queries in
// use
template <class V, class E>
[[gnu::noinline]] void online_softmax(int64_t keys, int64_t width, float factor, const float* scores,
                                      float* probabilities, float* row_max, float* row_sum, float* rescale) {
  constexpr int N = 4;  // vectors at a time: enough independent chains to fill the pipes
  int64_t j = 0;
  for (; j + N * V::kWidth <= width; j += N * V::kWidth)
    softmax_columns<V, E, N>(keys, factor, scores + j, probabilities + j, row_max + j, row_sum + j,
                             rescale + j);
  for (; j < width; j += V::kWidth)
    softmax_columns<V, E, 1>(keys, factor, scores + j, probabilities + j, row_max + j, row_sum + j,
                             rescale + j);
}

// o and lse of one tile from the sums
template <class V, class E>
void write_output(const AttentionArgs& args, const ForwardBuffers& w, int64_t batch, int64_t head,
                  int64_t query0, int64_t queries) {
  const Attention& a = args.shape;
  for (int64_t i = 0; i < queries; ++i) {
    const float sum = w.row_sum[i];  // 0 when a query sees no key: o = 0, lse = -inf
    args.lse_out[(batch * a.heads + head) * a.tq + query0 + i] =
        sum > 0 ? (w.row_max[i] + std::log2(sum)) * 0.693147181f : -std::numeric_limits<float>::infinity();
    w.rescale[i] = sum > 0 ? 1.0f / sum : 0.0f;
  }
  char* out = static_cast<char*>(args.o_out) +
              ((batch * a.tq + query0) * a.ld_o + head * a.d) * static_cast<int64_t>(sizeof(E));
  unpack_transposed<V, E>(w.o_transposed, w.rescale, queries, a.d, out, a.ld_o);
}

// A tile of queries: which, and what is its own of the buffers
struct QueryTileAt {
  int64_t batch, head, query0, queries, seen, seen_by_all;  // seen: keys, by its last query; by its first
  ForwardBuffers w;
};

template <class E>
QueryTileAt begin_tile(const AttentionArgs& args, const AttentionSizes& s, const ForwardBuffers& w,
                       int64_t unit) {
  const Attention& a = args.shape;
  const int64_t batch = unit / s.query_tiles / a.heads, head = unit / s.query_tiles % a.heads;
  const int64_t query0 = unit % s.query_tiles * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
  const int64_t row0 = batch * a.tq + query0;
  pack_columns<E>(element<E>(args.q, row0 * a.ld_q + head * a.d), a.ld_q, queries, a.d, w.q_columns);
  std::fill_n(w.row_max, kQueryTile, kNothingYet);
  std::fill_n(w.row_sum, kQueryTile, 0.0f);
  std::fill_n(w.o_transposed, a.d * kQueryTile, 0.0f);
  return {batch, head, query0, queries, visible_keys(a, query0 + queries - 1), visible_keys(a, query0), w};
}

// A tile's keys of key0 … end - 1
template <class V, class Dot>
void attend(const Attention& a, const AttentionSizes& s, const QueryTileAt& t, int64_t key0, int64_t end) {
  constexpr int kPack = Dot::kPack;
  using E = typename Dot::Element;
  const ForwardBuffers& w = t.w;
  const int64_t width = tile_width(t.queries);
  for (end = std::min(end, t.seen); key0 < end; key0 += kKeyBlock) {
    const int64_t keys = std::min(kKeyBlock, end - key0);
    matmul_tile<V, Dot, false>(keys, width, s.d_lanes, w.k_rows + key0 * s.d_lanes, s.d_lanes, w.q_columns,
                               kQueryTile, w.scores, kQueryTile, Into::kStore);
    if (key0 + keys > t.seen_by_all) mask_causal(a, t.query0, key0, keys, w.scores);
    weigh_last(a, key0, keys, w.scores);
    online_softmax<V, E>(keys, width, a.scale * kLog2e, w.scores, w.probabilities, w.row_max, w.row_sum,
                         w.rescale);
    matmul_tile<V, Dot, true>(a.d, width, ceil_div(keys, kPack), w.v_pairs + key0 / kPack * a.d, a.d,
                              w.probabilities, kQueryTile, w.o_transposed, kQueryTile,
                              key0 == 0 ? Into::kStore : Into::kScaleAdd, w.rescale);
  }
}

// units [first, last): unit = (batch * heads + head) * query_tiles + tile. Some tiles of a head go through a
// span of keys together, each in the order of the keys.
template <class V, class Dot>
void attention_forward_part(const AttentionArgs& args, int64_t first, int64_t last, float* workspace) {
  using E = typename Dot::Element;
  const Attention& a = args.shape;
  const AttentionSizes s(a);
  const ForwardBuffers w(a, s, workspace);
  int64_t packed = -1;
  for (int64_t unit = first; unit < last;) {
    const int64_t batch = unit / s.query_tiles / a.heads;
    const int64_t head = unit / s.query_tiles % a.heads, kv_head = head / s.group;
    if (packed != batch * a.kv_heads + kv_head) {
      packed = batch * a.kv_heads + kv_head;
      const int64_t origin = batch * a.tk * a.ld_kv + kv_head * a.d;
      pack_rows<V, E>(element<E>(args.k, origin), a.ld_kv, a.tk, a.d, w.k_rows);
      pack_pairs<V, E>(element<E>(args.v, origin), a.ld_kv, a.tk, a.d, a.d, w.v_pairs);
    }
    const int64_t left_of_head = s.query_tiles - unit % s.query_tiles;
    const int64_t count = std::min({kTilesTogether, left_of_head, last - unit});
    QueryTileAt tiles[kTilesTogether];
    for (int64_t i = 0; i < count; ++i) tiles[i] = begin_tile<E>(args, s, w.of_tile(i), unit + i);
    for (int64_t key0 = 0; key0 < a.tk; key0 += s.key_span)
      for (int64_t i = 0; i < count; ++i) attend<V, Dot>(a, s, tiles[i], key0, key0 + s.key_span);
    for (int64_t i = 0; i < count; ++i)
      write_output<V, E>(args, tiles[i].w, tiles[i].batch, tiles[i].head, tiles[i].query0, tiles[i].queries);
    unit += count;
  }
}
