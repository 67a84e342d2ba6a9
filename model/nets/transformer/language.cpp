#include "model/nets/transformer/language.h"

#include <algorithm>

#include "model/nets/declare.h"
#include "model/nets/transformer/cross_entropy.h"

namespace isobar::nets {
namespace {

constexpr int64_t kDropoutStream = 0;  // blocks have the others (block.h)

}  // namespace

plan::Param Vocabulary::table(const std::string& name, int64_t width) const {
  plan::Param p{name, {words, width}, plan::Init::normal, kSigma, 0};
  p.reserved = held * width;
  return p;
}

// ---- embed ----

TokenEmbed::TokenEmbed(int index, Emission& e, const Sharding& at, const Vocabulary& v,
                       const BlockShape& next)
    : NetPart(index, "embed"), e_(e), b_(e.b), at_(at), layers_(e, at), v_(v), next_(next) {}

void TokenEmbed::declare(Declare& d) {
  const bool twice = v_.tied && at_.pp > 1;
  d.tensor(table_, true, {v_.table("embed.weight", next_.width)}, twice ? Held::first_of_two : Held::once);
  if (v_.positions)
    d.tensor(positions_, true, {{"pos_embed", {next_.tokens, next_.width}, plan::Init::normal, kSigma}});
}

std::vector<Flow> TokenEmbed::forward(const std::vector<Flow>&, const Forward& how) {
  const int64_t R = at_.full_rows, D = next_.width;
  const plan::View x = how.output_place(0);
  const plan::View whole = at_.sequence ? b_.scratch("embed.x", e_.act, R * D) : x;
  b_.emit<plan::OpKind::embedding>(
      "embed/forward", attrs(),
      {tokens_, b_.weight(table_), layers_.once(positions_ ? b_.weight(positions_) : plan::View{})}, {whole});
  if (at_.sequence) {
    plan::TransferAttrs a{.group = at_.tp_group};
    a.send = at_.row_elements(D);
    b_.emit<plan::OpKind::reduce_scatter>("embed/forward/reduce_scatter", a, {whole}, {x}, plan::Lane::tp);
  } else {
    layers_.result("embed/forward", x);
  }
  mask_ = layers_.dropout("embed/dropout", x, true, kDropoutStream);
  return {{.x = x}};
}

plan::EmbeddingAttrs TokenEmbed::attrs() const {
  return {.rows = at_.full_rows, .cols = next_.width, .word0 = at_.at.tp * v_.held, .tokens = at_.runs()};
}

// The gradient of a table that is also this rank's head has that product's sum already.
void TokenEmbed::backward(const std::vector<Gradient>& out, std::vector<Gradient>&) {
  const bool tied_here = v_.tied && at_.pp == 1;
  layers_.dropout_backward("embed/dropout/backward", out[0].dx, mask_, kDropoutStream);
  const plan::View all = layers_.gathered("embed/backward", out[0].dx);
  plan::EmbeddingAttrs a = attrs();
  a.accumulate = e_.accumulates() || tied_here;
  a.first = !e_.accumulates();
  // With sequence parallelism tp ranks' gradients of what they all hold are added, and each has all rows
  // here.
  const bool first = !at_.sequence || at_.at.tp == 0;
  const plan::View dpositions = positions_ ? b_.grad(positions_) : plan::View{};
  b_.emit<plan::OpKind::embedding_backward>("embed/backward", a, {tokens_, all},
                                            {b_.grad(table_), first ? dpositions : plan::View{}});
  if (dpositions && !first && !e_.accumulates())
    b_.emit<plan::OpKind::zero>("embed/backward_zero", {.count = dpositions.count}, {}, {dpositions});
}

// ---- head ----

TokenHead::TokenHead(int index, Emission& e, const Sharding& at, const Vocabulary& v,
                     const BlockShape& before, const TokenEmbed& embed)
    : NetPart(index, "head"),
      e_(e),
      b_(e.b),
      at_(at),
      layers_(e, at),
      v_(v),
      before_(before),
      embed_(embed) {}

void TokenHead::declare(Declare& d) {
  const int64_t D = before_.width;
  d.norm(norm_, "norm", D, before_.eps, !before_.rms_norm);
  linear_.in = D, linear_.out = v_.held;
  if (v_.tied && at_.pp == 1) {
    linear_.weight = embed_.table();
    return;
  }
  // A tied copy starts with the same values, because they depend on the name.
  d.tensor(linear_.weight, true, {v_.table(v_.tied ? "embed.weight" : "head.weight", D)},
           v_.tied ? Held::second_of_two : Held::once);
}

std::vector<int> TokenHead::backward_reads() const {
  if (v_.tied) return {index(), embed_.index()};
  return {index()};
}

plan::View TokenHead::receive_buffer(size_t) {
  const plan::InPart here(b_, index());
  return b_.saved("norm.x", before_.stream, at_.rows * before_.width);
}

std::vector<Flow> TokenHead::forward(const std::vector<Flow>& in, const Forward&) {
  const int64_t R = at_.full_rows;
  in_ = in[0];
  norm_.x = in_.y ? receive_buffer(0) : in_.x;
  layers_.norm_forward("norm", "/forward", norm_, in_, true);
  logits_ = b_.saved("logits", e_.act, R * v_.held);
  layers_.linear_forward("head/forward", linear_, layers_.gathered("head/forward", norm_.h), logits_, R,
                         plan::View{});
  const int64_t first = at_.at.tp * v_.held,
                padding = v_.held - std::clamp(v_.words - first, int64_t{0}, v_.held);
  cross_entropy_forward(e_, at_, {.rows = R, .cols = v_.held, .column0 = first, .padding = padding}, logits_,
                        labels_, logits_);
  return {};
}

void TokenHead::backward(const std::vector<Gradient>&, std::vector<Gradient>& in) {
  const int64_t R = at_.full_rows;
  const plan::View dh = b_.scratch("norm.dh.all", e_.act, R * before_.width);
  layers_.linear_backward_input("head", linear_, logits_, dh, R);
  const plan::View all = e_.split ? norm_.h : layers_.gathered("head/backward_weight", norm_.h);
  const plan::View own = layers_.result("head/backward_input", dh);
  layers_.linear_backward_weight("head", linear_, all, logits_, R);
  in[0].dy = layers_.norm_backward("norm", norm_, own, in[0].dx, true, in_);
}

}  // namespace isobar::nets
