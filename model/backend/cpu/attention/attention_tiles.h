// Attention in bf16 on AMX tiles: the blocks and layouts of attention_forward.h and attention_backward.h,
// rounded up to whole tiles with zeros. Included like them, after them and tiles.h.
//
// Products take whole tiles, and V and K are read transposed (rows of d, pairs of keys). Products and
// exponentials alternate by patches of 32 keys x 32 queries: the tile unit is asynchronous, so while vectors
// exponentiate one patch it multiplies the next one's scores and the previous block into O. A head size of 48
// is padded to 64 in products that sum over it, which needs the same number of tile multiplications.

constexpr int64_t kTileKeys = 32;  // keys or queries: a tile's 16 pairs

constexpr int64_t whole(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// rows [n][width] of pairs, zero-padded
inline void pack_tile_rows(const char* src, int64_t ld, int64_t n, int64_t rows, int64_t d, int64_t width,
                           float* dst) {
  for (int64_t i = 0; i < rows; ++i) {
    char* row = reinterpret_cast<char*>(dst + i * width);
    const int64_t bytes = i < n ? d * 2 : 0;
    if (bytes > 0) std::memcpy(row, src + i * ld * 2, bytes);
    std::memset(row + bytes, 0, width * 4 - bytes);
  }
}

// columns [width][64] of n <= 64 rows, zero-padded after d
inline void pack_tile_columns(const char* src, int64_t ld, int64_t n, int64_t d, int64_t width, float* dst) {
  pack_columns<bf16>(src, ld, n, d, dst);
  const int64_t used = ceil_div(d, 2);
  std::memset(dst + used * kQueryTile, 0, (width - used) * kQueryTile * 4);
}

// pairs [rows / 2][width], zero-padded after row n: pack_pairs, in whole tiles
template <class V>
inline void pack_tile_pairs(const char* src, int64_t ld, int64_t n, int64_t rows, int64_t d, int64_t width,
                            float* dst) {
  pack_pairs<V, bf16>(src, ld, n, d, width, dst);
  const int64_t used = ceil_div(n, 2);
  std::memset(dst + used * width, 0, (rows / 2 - used) * width * 4);
}

// The transpose of that, [d_pad][stride]: two rows' elements side by side, zero-padded
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

// V is stored by blocks of keys, each transposed to [d_pad][pairs of keys], so that a tile's rows are near
// each other.
inline int64_t value_stride(const Attention& a, int64_t key0) {
  return std::min(kKeyBlock, whole(a.tk - key0, kTileKeys)) / 2;
}

template <class V>
void pack_values(const Attention& a, const AttentionSizes& s, const char* src, float* dst) {
  for (int64_t key0 = 0; key0 < a.tk; key0 += kKeyBlock) {
    const int64_t stride = value_stride(a, key0);
    pack_tile_transposed<V>(src + key0 * a.ld_kv * 2, a.ld_kv, std::min(kKeyBlock, a.tk - key0), 2 * stride,
                            a.d, s.d_pad, stride, dst + key0 / 2 * s.d_pad);
  }
}

// Keys or queries of a patch
constexpr int64_t kPatch = 32;
constexpr int64_t kPatches = kKeyBlock / kPatch;

// Masks a patch: keys after `end` and keys hidden from its queries; adds the last key's multiplicity
inline void mask_patch(const Attention& a, int64_t query0, int64_t key0, int64_t end, float* scores) {
  if (hides_some(a, query0, kPatch, key0, kPatch))
    mask_hidden(a, query0, kPatch, key0, kPatch, scores, kPatch);
  weigh_last(a, a.scale * kLog2e, kPatch, key0, std::min(kPatch, end - key0), scores, kPatch);
  for (int64_t i = std::max<int64_t>(end - key0, 0) * kPatch; i < kPatch * kPatch; ++i) scores[i] = kMasked;
}

// A block of keys for half a tile of queries: the item of the pipeline below
struct ForwardItem {
  const QueryTileAt* tile = nullptr;
  int64_t query = 0, width = 0;  // first query within the tile; columns
  int64_t key0 = 0, end = 0;
  float* p = nullptr;  // probabilities, [48][32] in pairs of keys

  int64_t patches() const { return ceil_div(end - key0, kPatch); }
  bool first() const { return key0 == tile->first; }
};

template <class V, class Tiles>
class ForwardPipeline {
 public:
  ForwardPipeline(const Attention& a, const AttentionSizes& s, const ForwardBuffers& w)
      : a_(a), s_(s), w_(w), factor_(a.scale * kLog2e), out_blocks_(ceil_div(s.d_pad, kPatch)) {}

  // Keys [key0, end) of a tile, block by block, for both halves of the queries
  void attend(const QueryTileAt& t, int64_t key0, int64_t end) {
    for (key0 = std::max(key0, t.first), end = std::min(end, t.end); key0 < end; key0 += kKeyBlock)
      for (int64_t query = 0; query < t.queries; query += kPatch) {
        const int64_t first = t.query0 + query, count = std::min(kPatch, t.queries - query);
        const int64_t stop = std::min({end, key0 + kKeyBlock, end_of_keys(a_, first + count - 1)});
        if (key0 < stop)
          push({&t, query, tile_width(count), key0, stop,
                w_.probabilities + (parity_ ^= 1) * (kKeyBlock / 2 * kPatch)});
      }
  }
  // Call before the tiles' sums are read
  void finish() {
    push({});
    for (int64_t c = 0; c < kPatches; ++c) add_output(before_, c, false, 0, nullptr);
    before_ = {};
  }

 private:
  void push(const ForwardItem& after) {
    if (now_.tile != nullptr) process(after);
    now_ = after;
  }

  void process(const ForwardItem& after) {
    const ForwardItem& now = now_;
    const bool fresh = now.first();
    // the next item's first patch of scores, unless it begins with its maximum
    const ForwardItem* follows = !fresh && after.tile != nullptr && !after.first() ? &after : nullptr;
    alignas(64) float sums[kPatch] = {};
    if (fresh) {
      for (int64_t c = 0; c < kPatches; ++c) add_output(before_, c, false, 0, nullptr);
    } else {
      if (!ready_) scores(now, 0, ring(0)).template whole<Tiles>();
      for (int64_t c = 0; c < now.patches(); ++c) patch(follows, c, sums);
      turn_ ^= now.patches() & 1;
    }
    ready_ = follows != nullptr;
    if (fresh || exceeds<V>(now.width, sums)) again(now, sums);
    add_to<V>(now.width, sums, now.tile->w.row_sum + now.query);
    before_ = now;
  }

  float* ring(int64_t c) const { return w_.scores + ((turn_ + c) & 1) * (kPatch * kPatch); }

  TileBlock scores(const ForwardItem& i, int64_t c, float* out) const {
    const float* k = w_.k_rows + (i.key0 + c * kPatch) * s_.tile_lanes;
    return {kPatch,     i.width, s_.tile_lanes, k,    s_.tile_lanes, i.tile->w.q_columns + i.query,
            kQueryTile, out,     kPatch,        false};
  }
  void mask(const ForwardItem& i, int64_t c, float* scores) const {
    if (const QueryTileAt& t = *i.tile; t.bias)
      add_bias(t.bias + (i.key0 + c * kPatch) * a_.tq + i.query, a_.tq, factor_,
               std::min(kPatch, i.end - i.key0 - c * kPatch), std::min(kPatch, t.queries - i.query), scores,
               kPatch);
    mask_patch(a_, i.tile->query0 + i.query, i.key0 + c * kPatch, i.end, scores);
  }
  void exponentiate(const ForwardItem& i, int64_t key, int64_t keys, const float* scores, float* sums) const {
    exponentials<V, bf16, false>(keys, i.width, kPatch, factor_, i.tile->w.row_max + i.query,
                                 scores + key % kPatch * kPatch, i.p + key / 2 * kPatch, sums);
  }

  void second_half(int64_t c, float* sums) const {
    exponentiate(now_, c * kPatch + kPatch / 2, kPatch / 2, ring(c), sums);
  }

  // The c-th share of an item's O^T += V^T P^T, overlapped with the second half of the patch `meanwhile` in
  // the last block (or without any)
  void add_output(const ForwardItem& i, int64_t c, bool exponentials, int64_t meanwhile, float* sums) const {
    const int64_t first = out_blocks_ * c / kPatches, last = out_blocks_ * (c + 1) / kPatches;
    if (i.tile == nullptr || first == last) {
      if (exponentials) second_half(meanwhile, sums);
      return;
    }
    const int64_t v_stride = value_stride(a_, i.key0);
    for (int64_t m = first; m < last; ++m) {
      const int64_t row = m * kPatch;
      const TileBlock b{s_.d_pad - row,
                        i.width,
                        i.patches() * (kPatch / 2),
                        w_.v_pairs + i.key0 / 2 * s_.d_pad + row * v_stride,
                        v_stride,
                        i.p,
                        kPatch,
                        i.tile->w.o_transposed + row * kQueryTile + i.query,
                        kQueryTile,
                        true};
      b.begin<Tiles>();
      if (m == last - 1 && exponentials) second_half(meanwhile, sums);
      b.end<Tiles>();
    }
  }

  // Exponentiates a patch of `now` while the tile unit multiplies the next scores and the rest of the
  // previous item
  void patch(const ForwardItem* after, int64_t c, float* sums) const {
    mask(now_, c, ring(c));
    const bool last = c + 1 == now_.patches(), follows = !last || after != nullptr;
    const TileBlock following =
        last && follows ? scores(*after, 0, ring(c + 1)) : scores(now_, c + 1, ring(c + 1));
    if (follows) following.begin<Tiles>();
    exponentiate(now_, c * kPatch, kPatch / 2, ring(c), sums);
    if (follows) following.end<Tiles>();
    add_output(before_, c, true, c, sums);
    if (last)
      for (int64_t rest = c + 1; rest < kPatches; ++rest) add_output(before_, rest, false, 0, nullptr);
  }

  // Repeats an item whose maximum was unknown or exceeded
  void again(const ForwardItem& i, float* sums) const {
    float* s = w_.scores + 2 * kPatch * kPatch;
    const QueryTileAt& t = *i.tile;
    for (int64_t c = 0; c < i.patches(); ++c) {
      scores(i, c, s + c * kPatch * kPatch).template whole<Tiles>();
      mask(i, c, s + c * kPatch * kPatch);
    }
    raise_maximum<V>(i.patches() * kPatch, i.width, kPatch, factor_, s, t.w.row_max + i.query,
                     t.w.row_sum + i.query, w_.rescale);
    if (!i.first())
      for (int64_t row = 0; row < s_.d_pad; ++row)
        for (int64_t j = 0; j < i.width; j += V::kWidth) {
          float* o = t.w.o_transposed + row * kQueryTile + i.query + j;
          V::store(o, V::mul(V::load(o), V::load(w_.rescale + j)));
        }
    std::fill_n(sums, kPatch, 0.0f);
    for (int64_t c = 0; c < i.patches(); ++c)
      exponentiate(i, c * kPatch, kPatch, s + c * kPatch * kPatch, sums);
  }

  const Attention& a_;
  const AttentionSizes& s_;
  const ForwardBuffers& w_;
  float factor_;
  int64_t out_blocks_;
  ForwardItem before_, now_;
  bool ready_ = false;  // scores of now_'s first patch are ready
  int64_t turn_ = 0;    // half of the ring that holds them
  int64_t parity_ = 0;  // half of the probabilities that the last item uses
};

// Spans of keys that several query tiles go through together: longer than backward's, since only K and V stay
// in L2.
constexpr int64_t kForwardSpans = 4;

inline QueryTileAt begin_query_tile(const AttentionArgs& args, const AttentionSizes& s,
                                    const ForwardBuffers& w, int64_t unit) {
  const Attention& a = args.shape;
  const int64_t batch = unit / s.query_tiles / a.heads, head = unit / s.query_tiles % a.heads;
  const int64_t query0 = unit % s.query_tiles * kQueryTile, queries = std::min(kQueryTile, a.tq - query0);
  const int64_t row0 = batch * a.tq + query0;
  pack_tile_columns(element<bf16>(args.q, row0 * a.ld_q + head * a.d), a.ld_q, queries, a.d, s.tile_lanes,
                    w.q_columns);
  std::fill_n(w.row_max, kQueryTile, kNothingYet);
  std::fill_n(w.row_sum, kQueryTile, 0.0f);
  std::fill_n(w.o_transposed, s.d_pad * kQueryTile, 0.0f);
  return {batch,
          head,
          query0,
          queries,
          first_block(a, query0),
          end_of_keys(a, query0 + queries - 1),
          w,
          bias_at(a, a.bias, head, query0)};
}

// units [first, last): unit = (batch * heads + head) * query_tiles + tile
template <class V, class Tiles>
void attention_forward_tiles(const AttentionArgs& args, int64_t first, int64_t last, float* workspace) {
  const Attention& a = args.shape;
  const AttentionSizes s(a);
  const ForwardBuffers w(a, s, workspace);
  const int64_t all_keys = whole(a.tk, kTileKeys), span = kForwardSpans * s.key_span;
  int64_t packed = -1;
  Tiles::begin();
  ForwardPipeline<V, Tiles> pipeline(a, s, w);
  for (int64_t unit = first; unit < last;) {
    const int64_t batch = unit / s.query_tiles / a.heads;
    const int64_t head = unit / s.query_tiles % a.heads, kv_head = head / s.group;
    if (packed != batch * a.kv_heads + kv_head) {
      packed = batch * a.kv_heads + kv_head;
      const int64_t origin = batch * a.tk * a.ld_kv + kv_head * a.d;
      pack_tile_rows(element<bf16>(args.k, origin), a.ld_kv, a.tk, all_keys, a.d, s.tile_lanes, w.k_rows);
      pack_values<V>(a, s, element<bf16>(args.v, origin), w.v_pairs);
    }
    const int64_t left_of_head = s.query_tiles - unit % s.query_tiles;
    const int64_t count = std::min({kTilesTogether, left_of_head, last - unit});
    QueryTileAt tiles[kTilesTogether];
    for (int64_t i = 0; i < count; ++i) tiles[i] = begin_query_tile(args, s, w.of_tile(i), unit + i);
    for (int64_t key0 = 0; key0 < a.tk; key0 += span)
      for (int64_t i = 0; i < count; ++i) pipeline.attend(tiles[i], key0, std::min(key0 + span, a.tk));
    pipeline.finish();
    for (int64_t i = 0; i < count; ++i)
      write_output<V, bf16>(args, tiles[i].w, tiles[i].batch, tiles[i].head, tiles[i].query0,
                            tiles[i].queries);
    unit += count;
  }
  Tiles::end();
}
