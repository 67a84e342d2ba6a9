// Ring attention: every rank's keys and values pass by in turn, and each step's attention is merged into the
// sum of the previous ones (Liu, Zaharia, Abbeel, arXiv 2310.01889).
#include "model/nets/transformer/context_parallel.h"

namespace isobar::nets {
namespace {

std::string numbered(std::string name, int64_t i) {
  name += std::to_string(i);
  return name;
}

}  // namespace

// A causal run of queries sees its own keys and those of earlier runs.
std::vector<AttentionCore::Pair> AttentionCore::pairs_with(int64_t rank, int64_t step) const {
  std::vector<Pair> out;
  for (const Run& q : runs_of(at_.at.cp))
    for (const Run& kv : runs_of(rank))
      if (!n_.causal || kv.place <= q.place) out.push_back({q, kv, std::to_string(step) + q.name + kv.name});
  return out;
}

plan::AttentionAttrs AttentionCore::attention(const Pair& pair, int64_t ld_q) const {
  plan::AttentionAttrs a = attention(pair.kv.tokens, ld_q, 2 * kv_);
  a.tq = pair.q.tokens;
  a.causal = n_.causal && pair.q.place == pair.kv.place;
  a.token0 = 0;
  return a;
}

// The rank whose keys and values are here at a step
int64_t AttentionCore::ring_rank(int64_t step) const {
  return (at_.at.cp - step % at_.cp + at_.cp) % at_.cp;
}

void AttentionCore::pass_on(const std::string& path, const plan::View& x, const plan::View& y) {
  b_.emit<plan::OpKind::exchange>(path, {.group = at_.cp_group, .send = {x.count}, .receive = {y.count}}, {x},
                                  {y}, plan::Lane::cp);
}

void AttentionCore::ring_forward(const std::string& block, Core& c, const std::string& pass) {
  const std::string path = block + "/attn/core" + pass;
  const int64_t cols = 2 * kv_;
  plan::View kv = own_kv(path + "_pack", block + ".kv0", c.qkv), next;
  const Queries q = queries(path, block + ".q.runs", c.qkv);
  const bool direct = act_ == DType::f32 && !runs_apart();
  const plan::View sum = direct ? c.o : b_.scratch(block + ".o.sum", DType::f32, R_ * width_);
  for (int64_t step = 0; step < at_.cp; ++step, kv = next) {
    if (step + 1 < at_.cp) {  // listed first, so that it runs under this step's attention
      next = b_.scratch(numbered(block + ".kv", step + 1), act_, elements(cols)[ring_rank(step + 1)]);
      pass_on(numbered(path + "_exchange", step), kv, next);
    }
    int64_t begun = -1;  // run whose sum has a part; the first step has one of each
    for (const Pair& p : pairs_with(ring_rank(step), step)) {
      const int64_t queries = at_.batch * p.q.tokens;
      const plan::View o = b_.scratch(block + ".o" + p.name, act_, queries * width_);
      const plan::View lse = b_.scratch(block + ".lse" + p.name, DType::f32, queries * heads_);
      const plan::AttentionAttrs a = attention(p, q.ld);
      const plan::View keys = of_run(kv, p.kv, cols);
      b_.emit_with_workspace<plan::OpKind::attention>(
          path + p.name, a,
          {of_run(q, p.q), keys.slice(0, keys.count - kv_), keys.slice(kv_, keys.count - kv_)}, {o, lse});
      b_.emit<plan::OpKind::attention_merge>(path + "_merge" + p.name,
                                             {.of = a, .first = step == 0 && begun != p.q.from}, {o, lse},
                                             {of_run(sum, p.q, width_), of_run(c.lse, p.q, heads_)});
      begun = p.q.from;
    }
  }
  if (direct) return;
  plan::View o = sum;
  if (act_ != DType::f32) {
    o = runs_apart() ? b_.scratch(block + ".o.runs", act_, R_ * width_) : c.o;
    b_.emit<plan::OpKind::cast>(path + "_cast", {.count = R_ * width_}, {sum}, {o});
  }
  if (runs_apart()) from_runs(path + "_unpack_o", width_, o, c.o, width_);
}

void AttentionCore::ring_backward(const std::string& block, const Core& c, const plan::View& d_o,
                                  const plan::View& dqkv) {
  const std::string path = block + "/attn/core/backward";
  const int64_t cols = 2 * kv_;
  // A packed copy of the queries: dq has their layout and must be contiguous to be added up.
  const plan::View q = b_.scratch(block + ".q", act_, R_ * width_);
  to_runs(path + "_pack_q", width_, part(c.qkv, 0), qkv_, q);
  const plan::View o = in_runs(path + "_pack_o", block + ".back.o.runs", c.o);
  const plan::View from = in_runs(path + "_pack_do", block + ".do.runs", d_o);
  plan::View kv = own_kv(path + "_pack", block + ".back.kv0", c.qkv), next, dkv_sum;
  const plan::View dq_sum = b_.scratch(block + ".dq.sum", DType::f32, R_ * width_);
  const auto add = [&](const std::string& name, const plan::View& part, const plan::View& sum, bool first) {
    if (first)
      b_.emit<plan::OpKind::cast>(name, {.count = sum.count}, {part}, {sum});
    else
      b_.emit<plan::OpKind::residual_add>(name, {.rows = 1, .cols = sum.count}, {sum, part}, {sum});
  };
  for (int64_t step = 0; step < at_.cp; ++step, kv = next) {
    if (step + 1 < at_.cp) {
      next = b_.scratch(numbered(block + ".back.kv", step + 1), act_, elements(cols)[ring_rank(step + 1)]);
      pass_on(numbered(path + "_exchange", step), kv, next);
    }
    int64_t begun = -1;
    for (const Pair& p : pairs_with(ring_rank(step), step)) {
      const plan::View keys = of_run(kv, p.kv, cols),
                       dq = b_.scratch(block + ".dq" + p.name, act_, at_.batch * p.q.tokens * width_);
      const plan::View dkv = b_.scratch(block + ".dkv" + p.name, act_, keys.count);
      const int64_t span = keys.count - kv_;
      b_.emit_with_workspace<plan::OpKind::attention_backward>(
          path + p.name, attention(p, width_),
          {of_run(q, p.q, width_), keys.slice(0, span), keys.slice(kv_, span), of_run(o, p.q, width_),
           of_run(c.lse, p.q, heads_), of_run(from, p.q, width_)},
          {dq, dkv.slice(0, span), dkv.slice(kv_, span)});
      add(path + "_add_q" + p.name, dq, of_run(dq_sum, p.q, width_), step == 0 && begun != p.q.from);
      // The sums for these keys and values arrived from the previous rank under this step's attention, or
      // begin with their own queries. They move on under the next step's, and home after the last.
      if (!dkv_sum) dkv_sum = b_.scratch(block + ".dkv.sum0", DType::f32, kv.count);
      add(path + "_add_kv" + p.name, dkv, of_run(dkv_sum, p.kv, cols), step == 0 && p.kv.place == p.q.place);
      begun = p.q.from;
    }
    const plan::View arriving =
        b_.scratch(numbered(block + ".dkv.sum", step + 1), DType::f32, elements(cols)[ring_rank(step + 1)]);
    pass_on(numbered(path + "_exchange_sum", step), dkv_sum, arriving);
    dkv_sum = arriving;
  }
  const auto finish = [&](const std::string& name, const plan::View& sum, int64_t n, const plan::View& into) {
    plan::View x = sum;
    if (act_ != DType::f32) {
      x = b_.scratch(block + "." + name, act_, sum.count);
      b_.emit<plan::OpKind::cast>(path + "_cast_" + name, {.count = sum.count}, {sum}, {x});
    }
    from_runs(path + "_unpack_" + name, n, x, into, qkv_);
  };
  finish("dq", dq_sum, width_, part(dqkv, 0));
  finish("dkv", dkv_sum, cols, dqkv.slice(width_, dqkv.count - width_));
}

}  // namespace isobar::nets
