#include "model/nets/transformer/context_parallel.h"

#include <cmath>

namespace isobar::nets {

AttentionCore::AttentionCore(Emission& e, const BlockShape& shape, const Sharding& at)
    : b_(e.b),
      n_(shape),
      at_(at),
      act_(e.act),
      kind_(e.spec.policy.attention == AttentionKind::unfused ? Kind::unfused
            : at.cp == 1                                      ? Kind::alone
            : e.spec.policy.cp_kind == CpKind::ring           ? Kind::ring
            : e.spec.policy.cp_kind == CpKind::ulysses        ? Kind::ulysses
                                                              : Kind::allgather),
      width_(shape.attended() / at.tp),
      heads_(shape.heads / at.tp),
      kv_heads_(shape.kv_heads / at.tp),
      kv_(kv_heads_ * shape.head_dim),
      qkv_(width_ + 2 * kv_),
      R_(at.full_rows),
      tf32_(e.spec.policy.amp == Amp::tf32) {}

void AttentionCore::forward(const std::string& block, Core& c, bool keep, const std::string& pass) {
  c.o = b_.saved_or_scratch(block + ".o", act_, R_ * width_, keep);
  // Ulysses has cp times the tokens and 1/cp of the heads.
  const int64_t rows =
      kind_ == Kind::ulysses ? at_.batch * heads_ / at_.cp * n_.tokens : at_.batch * heads_ * at_.tokens;
  if (kind_ != Kind::unfused) c.lse = b_.saved_or_scratch(block + ".lse", DType::f32, rows, keep);
  switch (kind_) {
    case Kind::alone:
      b_.emit_with_workspace<plan::OpKind::attention>(
          block + "/attn/core" + pass, attention(at_.tokens, qkv_, qkv_),
          {part(c.qkv, 0), part(c.qkv, 1), part(c.qkv, 2)}, {c.o, c.lse});
      return;
    case Kind::unfused:
      return unfused_forward(block, c, keep, pass);
    case Kind::allgather:
      return allgather_forward(block, c, keep, pass);
    case Kind::ring:
      return ring_forward(block, c, pass);
    case Kind::ulysses:
      return ulysses_forward(block, c, keep, pass);
  }
}

void AttentionCore::backward(const std::string& block, const Core& c, const plan::View& d_o,
                             const plan::View& dqkv) {
  switch (kind_) {
    case Kind::alone:
      b_.emit_with_workspace<plan::OpKind::attention_backward>(
          block + "/attn/core/backward", attention(at_.tokens, qkv_, qkv_),
          {part(c.qkv, 0), part(c.qkv, 1), part(c.qkv, 2), c.o, c.lse, d_o},
          {part(dqkv, 0), part(dqkv, 1), part(dqkv, 2)});
      return;
    case Kind::unfused:
      return unfused_backward(block, c, d_o, dqkv);
    case Kind::allgather:
      return allgather_backward(block, c, d_o, dqkv);
    case Kind::ring:
      return ring_backward(block, c, d_o, dqkv);
    case Kind::ulysses:
      return ulysses_backward(block, c, d_o, dqkv);
  }
}

// ---- pieces ----

plan::AttentionAttrs AttentionCore::attention(int64_t tk, int64_t ld_q, int64_t ld_kv) const {
  return {.tf32 = tf32_,
          .batch = at_.batch,
          .heads = heads_,
          .kv_heads = kv_heads_,
          .tq = at_.tokens,
          .tk = tk,
          .d = n_.head_dim,
          .ld_q = ld_q,
          .ld_kv = ld_kv,
          .ld_o = width_,
          .causal = n_.causal,
          .scale = n_.score_growth / std::sqrt(static_cast<float>(n_.head_dim)),
          .token0 = n_.causal ? at_.token0 : 0,
          .window = n_.window};
}

plan::AttentionAttrs AttentionCore::attention_of_all() const {  // ulysses
  plan::AttentionAttrs a = attention(n_.tokens, qkv_ / at_.cp, qkv_ / at_.cp);
  a.heads = heads_ / at_.cp;
  a.kv_heads = kv_heads_ / at_.cp;
  a.tq = n_.tokens;
  a.token0 = 0;
  a.ld_o = width_ / at_.cp;
  return a;
}

// q, k or v (which: 0 … 2) inside the fused [rows, qkv / cut] matrix: a strided operand, given as the span
// that covers it.
plan::View AttentionCore::part(const plan::View& qkv, int which, int64_t cut) const {
  const int64_t first = which == 0 ? 0 : width_ + (which - 1) * kv_, width = which == 0 ? width_ : kv_;
  return qkv.slice(first / cut, qkv.count - (qkv_ - width) / cut);
}

// Copies the first n columns of this rank's rows
void AttentionCore::columns(const std::string& path, int64_t n, const plan::View& x, int64_t ld_x,
                            const plan::View& y, int64_t ld_y) {
  copy(path, {n, {R_, 1, 1}, {ld_x, 0, 0}, {ld_y, 0, 0}}, x, y);
}

// Elements of every rank's rows
std::vector<int64_t> AttentionCore::elements(int64_t cols) const {
  std::vector<int64_t> out;
  for (int64_t t : at_.token_parts) out.push_back(at_.batch * t * cols);
  return out;
}

// Converts between the order in which ranks deliver, [cp] of [B][their tokens] or [run][B][its tokens], and
// samples' order, [B][N].
void AttentionCore::regroup(const std::string& path, const plan::View& by_rank, const plan::View& by_sample,
                            int64_t cols, bool to_sample) {
  const int64_t whole = n_.tokens * cols;
  int64_t token = 0;
  for (size_t i = 0; i < at_.token_parts.size(); ++i) {
    for (const Run& r : runs_of(static_cast<int64_t>(i))) {
      const int64_t n = r.tokens * cols;
      const plan::View mine = by_rank.slice(at_.batch * (token + r.from) * cols, at_.batch * n);
      const plan::View there = by_sample.slice(r.place * cols, (at_.batch - 1) * whole + n);
      copy(path + "/from" + std::to_string(i) + r.name,
           {n, {at_.batch, 1, 1}, {to_sample ? n : whole, 0, 0}, {to_sample ? whole : n, 0, 0}},
           to_sample ? mine : there, to_sample ? there : mine);
    }
    token += at_.token_parts[i];
  }
}

// This rank's keys and values, side by side
plan::View AttentionCore::own_kv(const std::string& path, const std::string& name, const plan::View& qkv) {
  const plan::View own = b_.scratch(name, act_, R_ * 2 * kv_);
  to_runs(path, 2 * kv_, qkv.slice(width_, qkv.count - width_), qkv_, own);
  return own;
}

// ---- unfused: the matrix of attention weights is in memory ----

void AttentionCore::unfused_forward(const std::string& block, Core& c, bool keep, const std::string& pass) {
  const std::string path = block + "/attn/core";
  const int64_t matrices = at_.batch * heads_, all = matrices * n_.tokens * n_.tokens, d = n_.head_dim;
  const plan::SoftmaxAttrs rows{.rows = matrices * n_.tokens, .cols = n_.tokens, .causal = n_.causal};
  const plan::View scores = b_.scratch(block + ".scores", act_, all);
  b_.emit<plan::OpKind::gemm>(path + "/scores" + pass,
                              {.m = n_.tokens, .n = n_.tokens, .k = d, .trans_b = true, .batch = matrices},
                              {part(c.qkv, 0), part(c.qkv, 1), plan::View{}}, {scores});
  c.weights = b_.saved_or_scratch(block + ".weights", act_, all, keep);
  if (n_.dropout > 0) {
    c.mask = b_.saved_or_scratch(block + ".weights.mask", DType::f32, (all + 3) / 4, keep);
    c.dropped = b_.saved_or_scratch(block + ".weights.dropped", act_, all, keep);
  }
  b_.emit<plan::OpKind::softmax>(path + "/softmax" + pass, rows, {scores}, {c.weights, c.mask, c.dropped});
  b_.emit<plan::OpKind::gemm>(path + "/values" + pass,
                              {.m = n_.tokens, .n = d, .k = n_.tokens, .batch = matrices},
                              {c.dropped ? c.dropped : c.weights, part(c.qkv, 2), plan::View{}}, {c.o});
}

void AttentionCore::unfused_backward(const std::string& block, const Core& c, const plan::View& d_o,
                                     const plan::View& dqkv) {
  const std::string path = block + "/attn/core";
  const int64_t matrices = at_.batch * heads_, N = n_.tokens, d = n_.head_dim;
  const plan::View dw = b_.scratch(block + ".dweights", act_, matrices * N * N);
  const auto product = [&](const std::string& name, int64_t n, int64_t k, const plan::View& a,
                           const plan::View& b, const plan::View& out) {
    b_.emit<plan::OpKind::gemm>(path + name, {.m = N, .n = n, .k = k, .batch = matrices},
                                {a, b, plan::View{}}, {out});
  };
  product("/values/backward_input", N, d, d_o, part(c.qkv, 2), dw);
  product("/values/backward_weight", d, N, c.dropped ? c.dropped : c.weights, d_o, part(dqkv, 2));
  b_.emit<plan::OpKind::softmax_backward>(path + "/softmax/backward",
                                          {.rows = matrices * N, .cols = N, .causal = n_.causal},
                                          {c.weights, c.mask, dw}, {dw});
  product("/scores/backward_q", d, N, dw, part(c.qkv, 1), part(dqkv, 0));
  product("/scores/backward_k", d, N, dw, part(c.qkv, 0), part(dqkv, 1));
}

// ---- allgather ----

// With all keys in the order of samples
plan::AttentionAttrs AttentionCore::over_all(const Run& queries, int64_t ld_q) const {
  plan::AttentionAttrs a = attention(n_.tokens, ld_q, 2 * kv_);
  a.tq = queries.tokens;
  if (n_.causal) a.token0 = queries.place;
  return a;
}

void AttentionCore::allgather_forward(const std::string& block, Core& c, bool keep, const std::string& pass) {
  const std::string path = block + "/attn/core" + pass;
  const int64_t cols = 2 * kv_, all = at_.batch * n_.tokens * cols;
  const plan::View own = own_kv(path + "_pack", block + ".kv.own", c.qkv);
  c.kv = b_.saved_or_scratch(block + ".kv", act_, all, keep);
  const plan::View arrived = regrouped() ? b_.scratch(block + ".kv.arrived", act_, all) : c.kv;
  plan::TransferAttrs a{.group = at_.cp_group};
  a.receive = elements(cols);
  b_.emit<plan::OpKind::all_gather>(path + "_all_gather", a, {own}, {arrived}, plan::Lane::cp);
  if (regrouped()) regroup(path + "_regroup", arrived, c.kv, cols, true);
  const Queries q = queries(path, block + ".q.runs", c.qkv);
  const plan::View o = runs_apart() ? b_.scratch(block + ".o.runs", act_, R_ * width_) : c.o;
  for (const Run& r : runs_of(at_.at.cp))
    b_.emit_with_workspace<plan::OpKind::attention>(
        path + r.name, over_all(r, q.ld),
        {of_run(q, r), c.kv.slice(0, all - kv_), c.kv.slice(kv_, all - kv_)},
        {of_run(o, r, width_), of_run(c.lse, r, heads_)});
  if (runs_apart()) from_runs(path + "_unpack_o", width_, o, c.o, width_);
}

void AttentionCore::allgather_backward(const std::string& block, const Core& c, const plan::View& d_o,
                                       const plan::View& dqkv) {
  const std::string path = block + "/attn/core/backward";
  const int64_t cols = 2 * kv_, all = c.kv.count;
  const Queries q = queries(path, block + ".back.q.runs", c.qkv);
  const plan::View o = in_runs(path + "_pack_o", block + ".back.o.runs", c.o);
  const plan::View from = in_runs(path + "_pack_do", block + ".do.runs", d_o);
  const Queries dq = runs_apart() ? Queries{b_.scratch(block + ".dq.runs", act_, R_ * width_), width_}
                                  : Queries{part(dqkv, 0), qkv_};
  plan::View dkv;
  for (const Run& r : runs_of(at_.at.cp)) {
    const plan::View of_this = b_.scratch(block + ".dkv" + r.name, act_, all);
    b_.emit_with_workspace<plan::OpKind::attention_backward>(
        path + r.name, over_all(r, q.ld),
        {of_run(q, r), c.kv.slice(0, all - kv_), c.kv.slice(kv_, all - kv_), of_run(o, r, width_),
         of_run(c.lse, r, heads_), of_run(from, r, width_)},
        {of_run(dq, r), of_this.slice(0, all - kv_), of_this.slice(kv_, all - kv_)});
    if (dkv)
      b_.emit<plan::OpKind::residual_add>(path + "_add" + r.name, {.rows = 1, .cols = all}, {of_this, dkv},
                                          {of_this});
    dkv = of_this;
  }
  if (runs_apart()) from_runs(path + "_unpack_dq", width_, dq.x, part(dqkv, 0), qkv_);
  plan::View leaving = dkv;
  if (regrouped()) {
    leaving = b_.scratch(block + ".dkv.leaving", act_, all);
    regroup(path + "_regroup", leaving, dkv, cols, false);
  }
  const plan::View own = b_.scratch(block + ".dkv.own", act_, R_ * cols);
  plan::TransferAttrs a{.group = at_.cp_group};
  a.send = elements(cols);
  b_.emit<plan::OpKind::reduce_scatter>(path + "_reduce_scatter", a, {leaving}, {own}, plan::Lane::cp);
  from_runs(path + "_unpack", cols, own, dqkv.slice(width_, dqkv.count - width_), qkv_);
}

// ---- ulysses ----

// Copies between x [rows, all heads of q, k and v, or of queries alone] and the ranks' heads of them,
// [cp][rows, their heads]. Neighbouring queries share a key, so that every operand is cut by itself.
void AttentionCore::cut_heads(const std::string& path, bool qkv, const plan::View& x,
                              const plan::View& by_rank, bool cut) {
  const int64_t all = qkv ? qkv_ : width_, cols = all / at_.cp;
  const auto operands = [&](const std::string& name, int64_t first, int64_t width, int64_t count) {
    const int64_t part = width / at_.cp;
    const std::array<int64_t, 3> whole{part, all, width}, parts{R_ * cols, cols, part};
    const plan::View here = x.slice(first, x.count - first),
                     there = by_rank.slice(first / at_.cp, by_rank.count - first / at_.cp);
    if (cut)
      copy(path + name, {part, {at_.cp, R_, count}, whole, parts}, here, there);
    else
      copy(path + name, {part, {at_.cp, R_, count}, parts, whole}, there, here);
  };
  const std::string name = cut ? "_pack" : "_unpack";
  if (qkv && width_ == kv_) return operands(name, 0, kv_, 3);
  operands(name, 0, width_, 1);
  if (qkv) operands(name + "_kv", width_, kv_, 2);
}

// Sends every rank its heads' columns of x and returns this rank's heads for all tokens: [B, N, cols / cp].
plan::View AttentionCore::tokens_of_all(const std::string& path, const std::string& name, bool qkv,
                                        const plan::View& x, const plan::View& into) {
  const int64_t cols = (qkv ? qkv_ : width_) / at_.cp;
  const plan::View leaving = b_.scratch(name + ".leaving", act_, x.count);
  cut_heads(path, qkv, x, leaving, true);
  const plan::View arrived = at_.batch > 1 ? b_.scratch(name + ".arrived", act_, into.count) : into;
  plan::TransferAttrs a{.group = at_.cp_group};
  a.send.assign(at_.cp, R_ * cols);
  a.receive = elements(cols);
  b_.emit<plan::OpKind::all_to_all>(path + "_all_to_all", a, {leaving}, {arrived}, plan::Lane::cp);
  if (at_.batch > 1) regroup(path + "_regroup", arrived, into, cols, true);
  return into;
}

// The inverse: all [B, N, cols / cp] -> into [rows, cols]
void AttentionCore::heads_of_all(const std::string& path, const std::string& name, bool qkv,
                                 const plan::View& all, const plan::View& into) {
  const int64_t cols = (qkv ? qkv_ : width_) / at_.cp;
  plan::View leaving = all;
  if (at_.batch > 1) {
    leaving = b_.scratch(name + ".leaving", act_, all.count);
    regroup(path + "_regroup", leaving, all, cols, false);
  }
  const plan::View arrived = b_.scratch(name + ".arrived", act_, into.count);
  plan::TransferAttrs a{.group = at_.cp_group};
  a.send = elements(cols);
  a.receive.assign(at_.cp, R_ * cols);
  b_.emit<plan::OpKind::all_to_all>(path + "_all_to_all", a, {leaving}, {arrived}, plan::Lane::cp);
  cut_heads(path, qkv, into, arrived, false);
}

void AttentionCore::ulysses_forward(const std::string& block, Core& c, bool keep, const std::string& pass) {
  const std::string path = block + "/attn/core" + pass;
  const int64_t rows = at_.batch * n_.tokens;
  c.all_qkv = b_.saved_or_scratch(block + ".qkv.all", act_, rows * (qkv_ / at_.cp), keep);
  c.all_o = b_.saved_or_scratch(block + ".o.all", act_, rows * (width_ / at_.cp), keep);
  tokens_of_all(path + "_qkv", block + ".qkv", true, c.qkv, c.all_qkv);
  b_.emit_with_workspace<plan::OpKind::attention>(
      path, attention_of_all(),
      {part(c.all_qkv, 0, at_.cp), part(c.all_qkv, 1, at_.cp), part(c.all_qkv, 2, at_.cp)}, {c.all_o, c.lse});
  heads_of_all(path + "_o", block + ".o", false, c.all_o, c.o);
}

void AttentionCore::ulysses_backward(const std::string& block, const Core& c, const plan::View& d_o,
                                     const plan::View& dqkv) {
  const std::string path = block + "/attn/core/backward";
  const plan::View all_do = tokens_of_all(path + "_o", block + ".do", false, d_o,
                                          b_.scratch(block + ".do.all", act_, c.all_o.count));
  const plan::View all_dqkv = b_.scratch(block + ".dqkv.all", act_, c.all_qkv.count);
  b_.emit_with_workspace<plan::OpKind::attention_backward>(
      path, attention_of_all(),
      {part(c.all_qkv, 0, at_.cp), part(c.all_qkv, 1, at_.cp), part(c.all_qkv, 2, at_.cp), c.all_o, c.lse,
       all_do},
      {part(all_dqkv, 0, at_.cp), part(all_dqkv, 1, at_.cp), part(all_dqkv, 2, at_.cp)});
  heads_of_all(path + "_qkv", block + ".dqkv", true, all_dqkv, dqkv);
}

}  // namespace isobar::nets
