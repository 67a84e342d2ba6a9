// The ops of language models: RMSNorm, SwiGLU, rotary positions, embedding of words.
#include <tuple>

#include "tests/backend/op_case.h"

namespace isobar::testing {
namespace {

constexpr double kRmsEps = 1e-5;

struct Matrix {
  int64_t rows, cols;
  std::string text(DType t) const { return size_text(t, rows, cols); }
};
constexpr std::initializer_list<Matrix> kMatrices = {{5, 64}, {33, 63}, {1, 130}, {3, 520}};
constexpr std::initializer_list<Matrix> kSmallMatrices = {
    {5, 24}, {9, 7}, {1, 65}};  // sizes for finite differences

// ---- RMSNorm ----

Numbers rstd_of(const Matrix& s, const Numbers& x) {
  Numbers rstd;
  for (int64_t r = 0; r < s.rows; ++r) {
    double squares = 0;
    for (int64_t j = 0; j < s.cols; ++j) squares += x[r * s.cols + j] * x[r * s.cols + j];
    rstd.push_back(1 / std::sqrt(squares / static_cast<double>(s.cols) + kRmsEps));
  }
  return rstd;
}

Numbers rms_normed(const Matrix& s, const Numbers& x, const Numbers& gamma) {
  const Numbers rstd = rstd_of(s, x);
  Numbers h;
  for (int64_t i = 0; i < s.rows * s.cols; ++i) h.push_back(x[i] * rstd[i / s.cols] * gamma[i % s.cols]);
  return h;
}

plan::NormAttrs norm_attrs(const Matrix& s) {
  return {.rows = s.rows, .cols = s.cols, .eps = static_cast<float>(kRmsEps)};
}

// The stream in f32, or as activations
void each_stream(const std::function<void(DType act, DType stream)>& f) {
  for (const DType act : kActs) {
    f(act, act);
    if (act != DType::f32) f(act, DType::f32);
  }
}

void rms_norm(Random& random, std::vector<OpCase>& to) {
  each_stream([&](DType act, DType stream) {
    for (const Matrix& s : kMatrices)
      for (const bool has_y : {true, false}) {
        const int64_t n = s.rows * s.cols;
        const Operand residual = normals(random, stream, n, 2, 1),
                      y = has_y ? normals(random, act, n) : Operand{},
                      gamma = normals(random, DType::f32, s.cols);
        Numbers x = residual.before;
        for (int64_t i = 0; i < n && has_y; ++i) x[i] = as_held(stream, x[i] + y.before[i]);
        to.push_back({plan::OpKind::rms_norm,
                      s.text(act) + " on " + name_of(stream) + (has_y ? "" : " alone"),
                      norm_attrs(s),
                      {residual, y, gamma},
                      {has_y ? written(stream, x) : Operand{}, written(act, rms_normed(s, x, gamma.before)),
                       written(DType::f32, rstd_of(s, x))}});
      }
  });
}

void rms_norm_backward(Random& random, std::vector<OpCase>& to) {
  each_stream([&](DType act, DType stream) {
    for (const Matrix& s : kSmallMatrices)
      for (const bool adds : {false, true}) {
        const int64_t n = s.rows * s.cols;
        const Operand x = normals(random, stream, n), gamma = normals(random, DType::f32, s.cols, 0.5, 1),
                      dh = normals(random, act, n);
        const Numbers dx = gradient([&](const Numbers&v) { return rms_normed(s, v, gamma.before); }, x.before,
                                    dh.before),
                      dgamma = gradient([&](const Numbers&v) { return rms_normed(s, x.before, v); },
                                        gamma.before, dh.before);
        plan::NormAttrs a = norm_attrs(s);
        a.accumulate = adds;
        a.first = !adds;
        const double allowed = std::max(1e-4, 2 * cpu::testing::roundoff(stream));
        const Operand slopes = adds ? added(random, stream, dx, allowed) : written(stream, dx, allowed);
        to.push_back({plan::OpKind::rms_norm_backward,
                      s.text(act) + " on " + name_of(stream) + (adds ? " adding" : ""),
                      a,
                      {x, given(DType::f32, rstd_of(s, x.before)), gamma, dh},
                      {slopes, written(act, slopes.want, std::max(allowed, 2 * cpu::testing::roundoff(act))),
                       adds ? added(random, DType::f32, dgamma, 1e-4) : written(DType::f32, dgamma, 1e-4)}});
      }
  });
}

// ---- RMSNorm of heads, which stand side by side in lines with other columns ----

struct Heads {
  int64_t lines, heads, d, ld_x, ld_h;
  Matrix rows() const { return {lines * heads, d}; }
  static int64_t span(const Heads& s, int64_t ld) { return (s.lines - 1) * ld + s.heads * s.d; }
  int64_t in(int64_t i, int64_t ld) const {  // of the i-th number of the rows
    const int64_t row = i / d;
    return row / heads * ld + row % heads * d + i % d;
  }
};
constexpr std::initializer_list<Heads> kHeads = {{5, 4, 16, 96, 80}, {3, 2, 10, 50, 50}, {4, 1, 24, 64, 24}};

plan::NormAttrs head_attrs(const Heads& s) {
  plan::NormAttrs a = norm_attrs(s.rows());
  a.heads = s.heads, a.ld_x = s.ld_x, a.ld_h = s.ld_h;
  return a;
}

Numbers heads_in(const Heads& s, const Numbers& from, int64_t ld) {
  Numbers rows;
  for (int64_t i = 0; i < s.lines * s.heads * s.d; ++i) rows.push_back(from[s.in(i, ld)]);
  return rows;
}

// A write of which only the heads change
Operand among(const Operand& was, Numbers want, double allowed = 0) {
  Operand out = written(was.type, std::move(want), allowed);
  out.before = was.before;
  return out;
}

Numbers with_heads(const Heads& s, Numbers to, const Numbers& rows, int64_t ld) {
  for (int64_t i = 0; i < s.lines * s.heads * s.d; ++i) to[s.in(i, ld)] = rows[i];
  return to;
}

void head_norm(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Heads& s : kHeads) {
      const Matrix rows = s.rows();
      const Operand x = normals(random, act, Heads::span(s, s.ld_x), 2, 1),
                    gamma = normals(random, DType::f32, s.d);
      const Numbers of_x = heads_in(s, x.before, s.ld_x), rstd = rstd_of(rows, of_x);
      const std::string what = size_text(act, s.lines, s.ld_x) + " of " + std::to_string(s.heads) + " heads";
      if (kind == plan::OpKind::rms_norm) {
        const Operand h = normals(random, act, Heads::span(s, s.ld_h));  // others' columns stay
        to.push_back({kind,
                      what,
                      head_attrs(s),
                      {x, {}, gamma},
                      {{},
                       among(h, with_heads(s, h.before, rms_normed(rows, of_x, gamma.before), s.ld_h)),
                       written(DType::f32, rstd)}});
        continue;
      }
      const Operand dh = normals(random, act, Heads::span(s, s.ld_h));
      const Numbers slopes = heads_in(s, dh.before, s.ld_h);
      const Numbers dx = gradient([&](const Numbers&v) { return rms_normed(rows, v, gamma.before); }, of_x,
                                  slopes),
                    dgamma = gradient([&](const Numbers&v) { return rms_normed(rows, of_x, v); },
                                      gamma.before, slopes);
      plan::NormAttrs a = head_attrs(s);
      a.first = true;
      const bool in_dh = s.ld_x == s.ld_h;
      const Operand before = in_dh ? dh : normals(random, act, Heads::span(s, s.ld_x));
      const Numbers want = with_heads(s, before.before, dx, s.ld_x);
      const double allowed = std::max(1e-4, 2 * cpu::testing::roundoff(act));
      to.push_back({kind,
                    what,
                    a,
                    {x, given(DType::f32, rstd), gamma, dh},
                    {in_dh ? in_place(3, dh, want, allowed) : among(before, want, allowed),
                     {},
                     written(DType::f32, dgamma, 1e-4)}});
    }
}

// ---- SwiGLU ----

Numbers swiglu_of(const Matrix& s, const Numbers& u, const Numbers& scale) {
  Numbers g;
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t j = 0; j < s.cols; ++j) {
      const double gate = u[2 * r * s.cols + j], up = u[(2 * r + 1) * s.cols + j];
      g.push_back((scale.empty() ? 1 : scale[r]) * gate / (1 + std::exp(-gate)) * up);
    }
  return g;
}

void swiglu(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Matrix& s : kind == plan::OpKind::swiglu ? kMatrices : kSmallMatrices)
      for (const char* const with : {"", " scaled", " scaled, of as many rows as data says"}) {
        const bool scaled = *with != 0, counted = std::string(with).find("data") != std::string::npos;
        const Operand u = normals(random, act, 2 * s.rows * s.cols, 2),
                      scale = scaled ? normals(random, DType::f32, s.rows) : Operand{},
                      offsets = counted
                                    ? Operand{.type = DType::i32, .before = {0, static_cast<double>(s.rows)}}
                                    : Operand{};
        const std::string what = s.text(act) + with;
        const plan::RowsAttrs attrs{counted ? s.rows + 3 : s.rows, s.cols};
        if (kind == plan::OpKind::swiglu) {
          to.push_back(
              {kind, what, attrs, {u, scale, offsets}, {written(act, swiglu_of(s, u.before, scale.before))}});
          continue;
        }
        const Operand dg = normals(random, act, s.rows * s.cols);
        const Numbers du = gradient([&](const Numbers&v) { return swiglu_of(s, v, scale.before); }, u.before,
                                    dg.before),
                      dscale = gradient([&](const Numbers&v) { return swiglu_of(s, u.before, v); },
                                        scale.before, dg.before);
        to.push_back({kind,
                      what,
                      attrs,
                      {u, dg, scale, offsets},
                      {written(act, du),
                       scaled ? written(DType::f32, dscale, act == DType::f32 ? 1e-5 : 1e-3) : Operand{}}});
      }
}

// ---- rotary positions ----

void rotary(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  struct Shape {
    int64_t batch, tokens, heads, d, beside;  // columns beside the heads stay
  };
  for (const DType act : kActs)
    for (const Shape& s : {Shape{2, 5, 3, 16, 8}, {1, 7, 1, 6, 0}, {3, 2, 2, 66, 66}}) {
      const int64_t rows = s.batch * s.tokens, ld = s.heads * s.d + s.beside, half = s.d / 2;
      Operand table = normals(random, DType::f32, s.tokens * s.d);
      for (int64_t t = 0; t < s.tokens; ++t)
        for (int64_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(t + 3) * std::pow(100, -static_cast<double>(i) / half);
          table.before[t * s.d + i] = as_held(DType::f32, std::cos(angle));
          table.before[t * s.d + half + i] = as_held(DType::f32, std::sin(angle));
        }
      const Operand x = normals(random, act, (rows - 1) * ld + s.heads * s.d);  // the span that it covers
      const auto turned = [&](const Numbers& from) {
        Numbers out = from;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t h = 0; h < s.heads; ++h)
            for (int64_t i = 0; i < half; ++i) {
              const int64_t a = r * ld + h * s.d + i, b = a + half;
              const double c = table.before[r % s.tokens * s.d + i],
                           w = table.before[r % s.tokens * s.d + half + i];
              out[a] = from[a] * c - from[b] * w;
              out[b] = from[b] * c + from[a] * w;
            }
        return out;
      };
      const Numbers want =
          kind == plan::OpKind::rotary ? turned(x.before) : gradient(turned, x.before, x.before);
      to.push_back(
          {kind,
           size_text(act, rows, ld) + " heads of " + std::to_string(s.d),
           plan::RotaryAttrs{.rows = rows, .cols = s.heads * s.d, .d = s.d, .ld = ld, .tokens = s.tokens},
           {x, table},
           {in_place(0, x, want)}});
    }
}

// ---- heads of latent attention ----

struct Latents {
  int64_t batch, tokens, heads, nope, rope, v, ld;
  int64_t rows() const { return batch * tokens; }
  int64_t qk() const { return nope + rope; }
  int64_t queries() const { return rows() * heads * qk(); }
  int64_t others() const { return rows() * heads * (nope + v); }
  int64_t key() const { return (rows() - 1) * ld + rope; }  // the span that it covers
};

// qkv from q, kv and the shared key, one after another in `from`
Numbers latent_of(const Latents& s, const Numbers& table, const Numbers& from) {
  Numbers out(static_cast<size_t>(3 * s.queries()));
  const int64_t half = s.rope / 2, kv = s.queries(), key = kv + s.others();
  for (int64_t r = 0; r < s.rows(); ++r)
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t q_in = (r * s.heads + h) * s.qk(), kv_in = kv + (r * s.heads + h) * (s.nope + s.v),
                    q = r * 3 * s.heads * s.qk() + h * s.qk(), k = q + s.heads * s.qk(),
                    v = k + s.heads * s.qk();
      for (int64_t j = 0; j < s.nope; ++j) out[q + j] = from[q_in + j], out[k + j] = from[kv_in + j];
      for (int64_t j = 0; j < s.v; ++j) out[v + j] = from[kv_in + s.nope + j];
      for (int64_t i = 0; i < half; ++i) {
        const double c = table[r % s.tokens * s.rope + i], w = table[r % s.tokens * s.rope + half + i];
        for (const auto& [in, to] : {std::pair{q_in + s.nope, q + s.nope}, {key + r * s.ld, k + s.nope}}) {
          out[to + i] = from[in + i] * c - from[in + half + i] * w;
          out[to + half + i] = from[in + half + i] * c + from[in + i] * w;
        }
      }
    }
  return out;
}

void latent_heads(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Latents& s : {Latents{2, 3, 2, 6, 4, 8, 9}, {1, 5, 3, 16, 8, 24, 8}, {2, 2, 1, 3, 2, 1, 70}}) {
      const Operand table = normals(random, DType::f32, s.tokens * s.rope),
                    q = normals(random, act, s.queries()), kv = normals(random, act, s.others()),
                    key = normals(random, act, s.key());
      const plan::LatentAttrs a{.rows = s.rows(),
                                .cols = 3 * s.heads * s.qk(),
                                .heads = s.heads,
                                .nope = s.nope,
                                .rope = s.rope,
                                .v = s.v,
                                .ld = s.ld,
                                .tokens = s.tokens};
      const std::string what = size_text(act, s.rows(), a.cols);
      Numbers from = q.before;
      from.insert(from.end(), kv.before.begin(), kv.before.end());
      from.insert(from.end(), key.before.begin(), key.before.end());
      const auto all = [&](const Numbers& x) { return latent_of(s, table.before, x); };
      if (kind == plan::OpKind::latent_heads) {
        to.push_back({kind, what, a, {q, kv, key, table}, {written(act, all(from))}});
        continue;
      }
      const Operand dqkv = normals(random, act, 3 * s.queries());
      const Numbers slopes = gradient(all, from, dqkv.before);
      const auto part = [&](int64_t first, int64_t count) {
        return Numbers(slopes.begin() + first, slopes.begin() + first + count);
      };
      Numbers of_key = key.before;  // columns beside it stay
      for (int64_t r = 0; r < s.rows(); ++r)
        for (int64_t i = 0; i < s.rope; ++i)
          of_key[r * s.ld + i] = slopes[s.queries() + s.others() + r * s.ld + i];
      const double allowed = std::max(1e-5, 2 * cpu::testing::roundoff(act));
      to.push_back({kind,
                    what,
                    a,
                    {dqkv, table},
                    {written(act, part(0, s.queries()), allowed),
                     written(act, part(s.queries(), s.others()), allowed), among(key, of_key, allowed)}});
    }
}

// ---- embedding ----

struct Words {
  int64_t batch, all_tokens;
  std::vector<int64_t> places;  // of a sample's tokens here: two runs
  int64_t cols, first, held;
  bool positions;
  int64_t rows() const { return batch * static_cast<int64_t>(places.size()); }
  int64_t place(int64_t row) const { return places[static_cast<size_t>(row) % places.size()]; }
};
const std::vector<Words> kWords = {{2, 5, {0, 1, 2, 3, 4}, 24, 0, 11, true},
                                   {3, 9, {5, 6, 7, 8}, 33, 7, 6, true},
                                   {2, 11, {1, 2, 3, 8, 9}, 40, 0, 5, true},
                                   {1, 9, {0, 1, 2, 3, 4, 5, 6, 7, 8}, 1040, 4, 8, false}};

// Some words are of another rank; most come several times.
Operand words_of(Random& random, const Words& w) {
  Operand words{.type = DType::i32, .before = {}};
  for (int64_t r = 0; r < w.rows(); ++r)
    words.before.push_back(static_cast<double>(random.integer(0, w.first + w.held + (w.first > 0 ? 3 : -1))));
  return words;
}

Numbers embedded(const Words& w, const Operand& words, const Numbers& table, const Numbers& positions) {
  Numbers x(static_cast<size_t>(w.rows() * w.cols));
  for (int64_t r = 0; r < w.rows(); ++r) {
    const auto word = static_cast<int64_t>(words.before[r]) - w.first;
    for (int64_t j = 0; j < w.cols; ++j) {
      if (word >= 0 && word < w.held) x[r * w.cols + j] += table[word * w.cols + j];
      if (w.positions) x[r * w.cols + j] += positions[w.place(r) * w.cols + j];
    }
  }
  return x;
}

plan::EmbeddingAttrs attrs_of(const Words& w) {
  TokenRuns tokens{w.places[0]};
  for (const int64_t place : w.places) {
    const bool next = tokens.more == 0 && place == tokens.first + tokens.count;
    if (next)
      ++tokens.count;
    else if (tokens.more++ == 0)
      tokens.then = place;
  }
  return {.rows = w.rows(), .cols = w.cols, .word0 = w.first, .tokens = tokens};
}

void embedding(Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Words& w : kWords) {
      const Operand words = words_of(random, w), table = normals(random, act, w.held * w.cols),
                    positions = w.positions ? normals(random, act, w.all_tokens * w.cols) : Operand{};
      to.push_back({plan::OpKind::embedding,
                    size_text(act, w.rows(), w.cols) + (w.first > 0 ? " of more words" : ""),
                    attrs_of(w),
                    {words, table, positions},
                    {written(act, embedded(w, words, table.before, positions.before))}});
    }
}

// A table that is also the head's is added to while positions are written.
void embedding_backward(Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Words& w : kWords)
      for (const auto& [table_adds, positions_add] :
           {std::pair{false, false}, std::pair{true, false}, std::pair{true, true}}) {
        if (w.cols > 100 && positions_add != table_adds) continue;
        const Operand words = words_of(random, w), dx = normals(random, act, w.rows() * w.cols);
        Numbers dtable(static_cast<size_t>(w.held * w.cols)),
            dpositions(static_cast<size_t>(w.positions ? w.all_tokens * w.cols : 0));
        for (int64_t r = 0; r < w.rows(); ++r) {
          const auto word = static_cast<int64_t>(words.before[r]) - w.first;
          for (int64_t j = 0; j < w.cols; ++j) {
            const double d = dx.before[r * w.cols + j];
            if (word >= 0 && word < w.held) dtable[word * w.cols + j] += d;
            if (w.positions) dpositions[w.place(r) * w.cols + j] += d;
          }
        }
        plan::EmbeddingAttrs a = attrs_of(w);
        a.accumulate = table_adds;
        a.first = !positions_add;
        const auto sum = [&](bool adds, const Numbers& want) {
          if (want.empty()) return Operand{};
          return adds ? added(random, DType::f32, want) : written(DType::f32, want);
        };
        to.push_back({plan::OpKind::embedding_backward,
                      size_text(act, w.rows(), w.cols) + (table_adds ? " adding" : "") +
                          (positions_add ? " positions too" : ""),
                      a,
                      {words, dx},
                      {sum(table_adds, dtable), sum(positions_add, dpositions)}});
      }
}

}  // namespace

void add_language_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  switch (kind) {
    case plan::OpKind::rms_norm:
      rms_norm(random, to);
      return head_norm(kind, random, to);
    case plan::OpKind::rms_norm_backward:
      rms_norm_backward(random, to);
      return head_norm(kind, random, to);
    case plan::OpKind::swiglu:
    case plan::OpKind::swiglu_backward:
      return swiglu(kind, random, to);
    case plan::OpKind::rotary:
    case plan::OpKind::rotary_backward:
      return rotary(kind, random, to);
    case plan::OpKind::latent_heads:
    case plan::OpKind::latent_heads_backward:
      return latent_heads(kind, random, to);
    case plan::OpKind::embedding:
      return embedding(random, to);
    case plan::OpKind::embedding_backward:
      return embedding_backward(random, to);
    default:
      return;
  }
}

}  // namespace isobar::testing
