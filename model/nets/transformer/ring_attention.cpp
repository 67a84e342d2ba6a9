// Ring attention: every rank's keys and values pass by in turn, and each step's attention is merged into the
// sum of the previous ones (Liu, Zaharia, Abbeel, arXiv 2310.01889).
#include "model/nets/transformer/context_parallel.h"

namespace isobar {
namespace {

std::string numbered(std::string name, int64_t i) {
  name += std::to_string(i);
  return name;
}

}  // namespace

// The rank whose keys and values are here at a step
int64_t AttentionCore::ring_rank(int64_t step) const {
  return (at_.at.cp - step % at_.cp + at_.cp) % at_.cp;
}

void AttentionCore::pass_on(const std::string& path, const View& x, const View& y) {
  b_.emit<OpKind::exchange>(path, {.group = at_.cp_group, .send = {x.count}, .receive = {y.count}}, {x}, {y},
                            Lane::cp);
}

void AttentionCore::ring_forward(const std::string& block, Core& c, const std::string& pass) {
  const std::string path = block + "/attn/core" + pass;
  const int64_t cols = 2 * kv_;
  View kv = own_kv(path + "_pack", block + ".kv0", c.qkv), next;
  const View sum = act_ == DType::f32 ? c.o : b_.scratch(block + ".o.sum", DType::f32, R_ * width_);
  for (int64_t step = 0; step < at_.cp; ++step, kv = next) {
    if (step + 1 < at_.cp) {  // listed first, so that it runs under this step's attention
      next = b_.scratch(numbered(block + ".kv", step + 1), act_, elements(cols)[ring_rank(step + 1)]);
      pass_on(numbered(path + "_exchange", step), kv, next);
    }
    const View o = b_.scratch(numbered(block + ".o", step), act_, R_ * width_);
    const View lse = b_.scratch(numbered(block + ".lse", step), DType::f32, c.lse.count);
    const AttentionAttrs a = attention(at_.token_parts[ring_rank(step)], qkv_, cols);
    b_.emit_with_workspace<OpKind::attention>(
        numbered(path, step), a, {part(c.qkv, 0), kv.slice(0, kv.count - kv_), kv.slice(kv_, kv.count - kv_)},
        {o, lse});
    b_.emit<OpKind::attention_merge>(numbered(path + "_merge", step), {.of = a, .first = step == 0}, {o, lse},
                                     {sum, c.lse});
  }
  if (sum.buffer != c.o.buffer) b_.emit<OpKind::cast>(path + "_cast", {.count = R_ * width_}, {sum}, {c.o});
}

void AttentionCore::ring_backward(const std::string& block, const Core& c, const View& d_o,
                                  const View& dqkv) {
  const std::string path = block + "/attn/core/backward";
  const int64_t cols = 2 * kv_;
  // A packed copy of the queries: dq has their layout and must be contiguous to be added up.
  const View q = b_.scratch(block + ".q", act_, R_ * width_);
  columns(path + "_pack_q", width_, part(c.qkv, 0), qkv_, q, width_);
  View kv = own_kv(path + "_pack", block + ".back.kv0", c.qkv), next, dkv_sum;
  const View dq_sum = b_.scratch(block + ".dq.sum", DType::f32, R_ * width_);
  const auto add = [&](const std::string& name, const View& part, const View& sum, bool first) {
    if (first)
      b_.emit<OpKind::cast>(name, {.count = sum.count}, {part}, {sum});
    else
      b_.emit<OpKind::residual_add>(name, {.rows = 1, .cols = sum.count}, {sum, part}, {sum});
  };
  for (int64_t step = 0; step < at_.cp; ++step, kv = next) {
    if (step + 1 < at_.cp) {
      next = b_.scratch(numbered(block + ".back.kv", step + 1), act_, elements(cols)[ring_rank(step + 1)]);
      pass_on(numbered(path + "_exchange", step), kv, next);
    }
    const View dq = b_.scratch(numbered(block + ".dq", step), act_, R_ * width_);
    const View dkv = b_.scratch(numbered(block + ".dkv", step), act_, kv.count);
    const int64_t span = kv.count - kv_;
    b_.emit_with_workspace<OpKind::attention_backward>(
        numbered(path, step), attention(at_.token_parts[ring_rank(step)], width_, cols),
        {q, kv.slice(0, span), kv.slice(kv_, span), c.o, c.lse, d_o},
        {dq, dkv.slice(0, span), dkv.slice(kv_, span)});
    add(numbered(path + "_add_q", step), dq, dq_sum, step == 0);
    // The sums for these keys and values arrived from the previous rank under this step's attention. They
    // move on under the next step's, and home after the last.
    if (step == 0) dkv_sum = b_.scratch(block + ".dkv.sum0", DType::f32, kv.count);
    add(numbered(path + "_add_kv", step), dkv, dkv_sum, step == 0);
    const View arriving =
        b_.scratch(numbered(block + ".dkv.sum", step + 1), DType::f32, elements(cols)[ring_rank(step + 1)]);
    pass_on(numbered(path + "_exchange_sum", step), dkv_sum, arriving);
    dkv_sum = arriving;
  }
  const auto finish = [&](const std::string& name, const View& sum, int64_t n, const View& into) {
    View x = sum;
    if (act_ != DType::f32) {
      x = b_.scratch(block + "." + name, act_, sum.count);
      b_.emit<OpKind::cast>(path + "_cast_" + name, {.count = sum.count}, {sum}, {x});
    }
    columns(path + "_unpack_" + name, n, x, n, into, qkv_);
  };
  finish("dq", dq_sum, width_, part(dqkv, 0));
  finish("dkv", dkv_sum, cols, dqkv.slice(width_, dqkv.count - width_));
}

}  // namespace isobar
