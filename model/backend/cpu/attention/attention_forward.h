// One thread's share of attention_forward: flash attention's online softmax (Dao et al. 2022), transposed.
// Included like simd_avx512.h: inside an unnamed namespace, after matmul_tile.h and attention_pack.h.
//
// Tiles are 64 queries and 96 keys: S^T[key, query] = K Q^T, with queries across the vectors. Maximum,
// exponential and sum over keys then need no shuffles, K and V are broadcast without packing, and P^T is
// directly an operand of O^T[d, query] += V^T P^T. Only Q is transposed, once per tile.

constexpr float kLog2e = 1.44269504f;
constexpr float kMasked = -1e38f;      // finite, so that no inf - inf arises; 2^kMasked = 0
constexpr float kNothingYet = -1e30f;  // maximum before the first key: far above kMasked, below any score

constexpr float kLead = 15.0f;  // log2: how far scores may exceed the running maximum; f16 holds 2^15

// Masks the keys that queries from query0 on must not see, in S^T rows from key0 on
inline void mask_hidden(const Attention& a, int64_t query0, int64_t queries, int64_t key0, int64_t keys,
                        float* scores, int64_t stride) {
  if (!a.causal) return;
  for (int64_t k = 0; k < keys; ++k) {
    const int64_t own = key0 + k - a.shift() - query0;  // the query at this key's place
    const int64_t first = std::clamp<int64_t>(own, 0, queries);
    const int64_t end = a.window == 0 ? queries : std::clamp<int64_t>(own + a.window, 0, queries);
    std::fill(scores + k * stride, scores + k * stride + first, kMasked);
    std::fill(scores + k * stride + end, scores + k * stride + queries, kMasked);
  }
}

// The last key counts last_counts times: adds the logarithm to its score.
inline void weigh_last(const Attention& a, float factor, int64_t queries, int64_t key0, int64_t keys,
                       float* scores, int64_t stride) {
  if (a.last_counts == 1 || keys <= 0 || key0 + keys < a.tk) return;
  const float more = std::log2(static_cast<float>(a.last_counts)) / factor;
  for (int64_t i = 0; i < queries; ++i) scores[(keys - 1) * stride + i] += more;
}

// Adds a bias, rows of keys `ld` apart, to S^T
inline void add_bias(const float* bias, int64_t ld, float factor, int64_t keys, int64_t queries,
                     float* scores, int64_t stride) {
  const float more = kLog2e / factor;
  for (int64_t k = 0; k < keys; ++k)
    for (int64_t i = 0; i < queries; ++i) scores[k * stride + i] += more * bias[k * ld + i];
}

// The softmax reads the scores once: it exponentiates against the running maximum, and only if a sum shows
// that some score exceeds it by kLead is the block repeated with a new maximum and the old sums rescaled.
// That is rare after a query's first block, and exponentials of up to 2^kLead are equally exact.

// With f32 operands the queries are scaled instead of the scores, and the product subtracts the maximum when
// it stores them: exponentials are bound by FMA units, not by adders.
template <class E>
constexpr bool kScaledQueries = kPackOf<E> == 1;

// Remaining factor on scores, in units of log2
template <class E>
inline float score_factor(const Attention& a) {
  return kScaledQueries<E> ? 1.0f : a.scale * kLog2e;
}

template <class V, class E>
inline void scale_queries(const Attention& a, int64_t lanes, float* q_columns) {
  if constexpr (kScaledQueries<E>) {
    const typename V::Reg f = V::set1(a.scale * kLog2e);
    for (int64_t i = 0; i < lanes; i += V::kWidth) V::store(q_columns + i, V::mul(V::load(q_columns + i), f));
  }
}

// Exponentials of N vectors of scores, in E's precision; kShifted: scores are already in units of log2 and
// relative to the maximum
template <class V, class E, bool kShifted, int N>
[[gnu::always_inline]] inline void exponentials_of(const float* s, typename V::Reg factor,
                                                   const typename V::Reg (&shift)[N],
                                                   typename V::Reg (&p)[N]) {
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) {
    p[v] = V::load(s + v * V::kWidth);
    if constexpr (!kShifted) p[v] = V::fma(p[v], factor, shift[v]);
    if constexpr (!V::kByFloor) p[v] = V::min(V::set1(126.0f), p[v]);  // operand order keeps NaN
  }
  exp2_flushed<V, kPackOf<E> == 1 ? 6 : 4>(p);
}

// S^T [keys][stride] -> P^T relative to row_max (log2), in pairs of keys for bf16; adds the sums over keys to
// `sums`. N vectors of queries
template <class V, class E, bool kShifted, int N>
[[gnu::always_inline]] inline void exponential_columns(int64_t keys, int64_t stride, float factor,
                                                       const float* row_max, const float* scores,
                                                       float* probabilities, float* sums) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  constexpr int64_t kPack = kPackOf<E>;
  const Reg f = V::set1(factor);
  Reg shift[N], sum[N], p[N], next[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) {
    shift[v] = V::sub(V::zero(), V::load(row_max + v * W));
    sum[v] = V::load(sums + v * W);
  }
  int64_t k = 0;
  for (; k + kPack <= keys; k += kPack) {
    exponentials_of<V, E, kShifted>(scores + k * stride, f, shift, p);
    if constexpr (kPack == 2) exponentials_of<V, E, kShifted>(scores + (k + 1) * stride, f, shift, next);
    float* out = probabilities + k / kPack * stride;
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v)
      if constexpr (kPack == 1) {
        sum[v] = V::add(sum[v], p[v]);
        V::store(out + v * W, as_operand<V, E>(p[v]));
      } else {
        sum[v] = V::add(sum[v], V::add(p[v], next[v]));
        V::store_as_pairs(out + v * W, p[v], next[v]);
      }
  }
  if (k < keys) {  // bf16: last key of an odd number
    exponentials_of<V, E, kShifted>(scores + k * stride, f, shift, p);
    for (int v = 0; v < N; ++v) {
      sum[v] = V::add(sum[v], p[v]);
      V::store_as_pairs(probabilities + k / 2 * stride + v * W, p[v], V::zero());
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) V::store(sums + v * W, sum[v]);
}

// width: queries in use, whole vectors
template <class V, class E, bool kShifted>
[[gnu::noinline]] void exponentials(int64_t keys, int64_t width, int64_t stride, float factor,
                                    const float* row_max, const float* scores, float* probabilities,
                                    float* sums) {
  constexpr int W = V::kWidth;
  constexpr int kMost = kPackOf<E> == 1 ? 4 : V::kTileVectors;  // vectors at once; pairs need more registers
  int64_t j = 0;
  for (; j + kMost * W <= width; j += kMost * W)
    exponential_columns<V, E, kShifted, kMost>(keys, stride, factor, row_max + j, scores + j,
                                               probabilities + j, sums + j);
  for (; j + 2 * W <= width; j += 2 * W)
    exponential_columns<V, E, kShifted, 2>(keys, stride, factor, row_max + j, scores + j, probabilities + j,
                                           sums + j);
  for (; j < width; j += W)
    exponential_columns<V, E, kShifted, 1>(keys, stride, factor, row_max + j, scores + j, probabilities + j,
                                           sums + j);
}

// True if a score may have exceeded the running maximum by kLead
template <class V>
bool exceeds(int64_t width, const float* sums) {
  const typename V::Reg most = V::set1(std::exp2(kLead));
  bool any = false;
  for (int64_t j = 0; j < width; j += V::kWidth) any |= V::any_above(V::load(sums + j), most);
  return any;
}

// Raises row_max to the maximum of a block; row_sum shrinks accordingly, and `rescale` is the factor for
// other sums.
template <class V>
[[gnu::noinline]] void raise_maximum(int64_t keys, int64_t width, int64_t stride, float factor,
                                     const float* scores, float* row_max, float* row_sum, float* rescale) {
  using Reg = typename V::Reg;
  for (int64_t j = 0; j < width; j += V::kWidth) {
    Reg top = V::set1(-3e38f);
    for (int64_t k = 0; k < keys; ++k) top = V::max(top, V::load(scores + k * stride + j));
    const Reg old = V::load(row_max + j), larger = V::max(old, V::mul(top, V::set1(factor)));
    const Reg shrink = exp2<V>(V::sub(old, larger));
    V::store(row_max + j, larger);
    V::store(rescale + j, shrink);
    V::store(row_sum + j, V::mul(V::load(row_sum + j), shrink));
  }
}

template <class V>
void add_to(int64_t n, const float* x, float* y) {
  for (int64_t j = 0; j < n; j += V::kWidth) V::store(y + j, V::add(V::load(y + j), V::load(x + j)));
}

template <class V>
void negate(int64_t n, const float* x, float* y) {
  for (int64_t j = 0; j < n; j += V::kWidth) V::store(y + j, V::sub(V::zero(), V::load(x + j)));
}

// o and lse of one tile from the sums
template <class V, class E>
void write_output(const AttentionArgs& args, const ForwardBuffers& w, int64_t batch, int64_t head,
                  int64_t query0, int64_t queries) {
  const Attention& a = args.shape;
  for (int64_t i = 0; i < queries; ++i) {
    const float sum = w.row_sum[i];  // 0 if a query sees no key: o = 0, lse = -inf
    args.lse_out[(batch * a.heads + head) * a.tq + query0 + i] =
        sum > 0 ? (w.row_max[i] + std::log2(sum)) * 0.693147181f : -std::numeric_limits<float>::infinity();
    w.rescale[i] = sum > 0 ? 1.0f / sum : 0.0f;
  }
  char* out = static_cast<char*>(args.o_out) +
              ((batch * a.tq + query0) * a.ld_o + head * a.d) * static_cast<int64_t>(sizeof(E));
  unpack_transposed<V, E>(w.o_transposed, w.rescale, queries, a.d, out, a.ld_o);
}

// A tile of queries and its part of the buffers
struct QueryTileAt {
  int64_t batch, head, query0, queries, first, end;  // blocks of keys from `first` on, keys up to `end`
  ForwardBuffers w;
  const float* bias;  // of the head, from its first query on; nullptr: none
};

template <class V, class E>
QueryTileAt begin_tile(const AttentionArgs& args, const AttentionSizes& s, const ForwardBuffers& w,
                       int64_t unit) {
  const Attention& a = args.shape;
  const int64_t batch = unit / s.query_tiles / a.heads, head = unit / s.query_tiles % a.heads;
  const int64_t query0 = unit % s.query_tiles * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
  const int64_t row0 = batch * a.tq + query0;
  pack_columns<E>(element<E>(args.q, row0 * a.ld_q + head * a.d), a.ld_q, queries, a.d, w.q_columns);
  scale_queries<V, E>(a, s.d_lanes * kQueryTile, w.q_columns);
  std::fill_n(w.row_max, kQueryTile, kNothingYet);
  std::fill_n(w.row_sum, kQueryTile, 0.0f);
  std::fill_n(w.o_transposed, a.d * kQueryTile, 0.0f);
  return {batch,
          head,
          query0,
          queries,
          first_block(a, query0),
          end_of_keys(a, query0 + queries - 1),
          w,
          bias_at(a, a.bias, head, query0)};
}

// Keys [key0, end) of a tile
template <class V, class Dot>
void attend(const Attention& a, const AttentionSizes& s, const QueryTileAt& t, int64_t key0, int64_t end) {
  constexpr int kPack = Dot::kPack;
  using E = typename Dot::Element;
  const ForwardBuffers& w = t.w;
  const int64_t width = tile_width(t.queries);
  const float factor = score_factor<E>(a);
  for (key0 = std::max(key0, t.first), end = std::min(end, t.end); key0 < end; key0 += kKeyBlock) {
    const int64_t keys = std::min(kKeyBlock, end - key0);
    alignas(64) float sums[kQueryTile], shift[kQueryTile];
    const auto scores = [&](Into as, const float* row) {
      std::fill_n(sums, kQueryTile, 0.0f);
      matmul_tile<V, Dot, false>(keys, width, s.d_lanes, w.k_rows + key0 * s.d_lanes, s.d_lanes, w.q_columns,
                                 kQueryTile, w.scores, kQueryTile, as, row);
      if (t.bias) add_bias(t.bias + key0 * a.tq, a.tq, factor, keys, t.queries, w.scores, kQueryTile);
      if (hides_some(a, t.query0, t.queries, key0, keys))
        mask_hidden(a, t.query0, kQueryTile, key0, keys, w.scores, kQueryTile);
      weigh_last(a, factor, kQueryTile, key0, keys, w.scores, kQueryTile);
    };
    bool higher = key0 == t.first;
    if (!higher) {
      if constexpr (kScaledQueries<E>) negate<V>(kQueryTile, w.row_max, shift);
      scores(kScaledQueries<E> ? Into::kAddRow : Into::kStore, shift);
      exponentials<V, E, kScaledQueries<E>>(keys, width, kQueryTile, factor, w.row_max, w.scores,
                                            w.probabilities, sums);
      higher = exceeds<V>(width, sums);
    }
    if (higher) {
      scores(Into::kStore, nullptr);  // f32's probabilities have overwritten them
      raise_maximum<V>(keys, width, kQueryTile, factor, w.scores, w.row_max, w.row_sum, w.rescale);
      exponentials<V, E, false>(keys, width, kQueryTile, factor, w.row_max, w.scores, w.probabilities, sums);
    }
    const Into into = key0 == t.first ? Into::kStore : higher ? Into::kScaleAdd : Into::kAdd;
    add_to<V>(width, sums, w.row_sum);
    matmul_tile<V, Dot, true>(a.d, width, ceil_div(keys, kPack), w.v_pairs + key0 / kPack * a.d, a.d,
                              w.probabilities, kQueryTile, w.o_transposed, kQueryTile, into, w.rescale);
  }
}

// units [first, last): unit = (batch * heads + head) * query_tiles + tile. Several tiles of a head go through
// a span of keys together, each in key order.
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
    for (int64_t i = 0; i < count; ++i) tiles[i] = begin_tile<V, E>(args, s, w.of_tile(i), unit + i);
    for (int64_t key0 = 0; key0 < a.tk; key0 += s.key_span)
      for (int64_t i = 0; i < count; ++i) attend<V, Dot>(a, s, tiles[i], key0, key0 + s.key_span);
    for (int64_t i = 0; i < count; ++i)
      write_output<V, E>(args, tiles[i].w, tiles[i].batch, tiles[i].head, tiles[i].query0, tiles[i].queries);
    unit += count;
  }
}
