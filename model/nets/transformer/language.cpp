#include "model/nets/transformer/language.h"

#include <algorithm>
#include <string>

#include "model/nets/declare.h"
#include "model/nets/net.h"
#include "model/nets/tied.h"
#include "model/nets/transformer/block.h"
#include "model/nets/transformer/cross_entropy.h"

namespace isobar::nets {
namespace {

constexpr int64_t kDropoutStream = 0;  // blocks have the others (block.h)

/// [words, width], behind which the padding is zeros
plan::Param table_of(const Vocabulary& v, const std::string& name, int64_t width) {
  plan::Param p{name, {v.words, width}, plan::Init::normal, kSigma, 0};
  p.reserved = v.held * width;
  return p;
}

class TokenEmbed : public NetPart {
 public:
  TokenEmbed(int index, Emission& e, const Sharding& at, const Vocabulary& v, const BlockShape& next)
      : NetPart(index, "embed"), e_(e), b_(e.b), at_(at), layers_(e, at), v_(v), next_(next) {}
  void set_tokens(const plan::View& v) { tokens_ = v; }
  const plan::View& table() const { return table_; }

  void declare(Declare& d) override {
    const bool twice = v_.tied && at_.pp > 1;
    d.tensor(table_, true, {table_of(v_, "embed.weight", next_.width)},
             twice ? Held::first_of_two : Held::once);
    if (v_.positions)
      d.tensor(positions_, true, {{"pos_embed", {next_.tokens, next_.width}, plan::Init::normal, kSigma}});
  }
  std::vector<Flow> forward(const std::vector<Flow>&, const Forward& how) override {
    const int64_t R = at_.full_rows, D = next_.width;
    const plan::View x = how.output_place(0);
    const plan::View whole = at_.sequence ? b_.scratch("embed.x", e_.act, R * D) : x;
    b_.emit<plan::OpKind::embedding>(
        "embed/forward", attrs(),
        {tokens_, b_.weight(table_), layers_.once(positions_ ? b_.weight(positions_) : plan::View{})},
        {whole});
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
  // The gradient of a table that is also this rank's head has that product's sum already.
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>&) override {
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
  plan::View last_gradient(bool weight) const override { return weight ? plan::View{} : table_; }
  std::vector<int> backward_reads() const override { return {}; }

 private:
  plan::EmbeddingAttrs attrs() const {
    return {.rows = at_.full_rows, .cols = next_.width, .word0 = at_.at.tp * v_.held, .tokens = at_.runs()};
  }

  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const Vocabulary v_;
  const BlockShape next_;
  plan::View table_, positions_, tokens_, mask_;
};

class TokenHead : public NetPart {
 public:
  TokenHead(int index, Emission& e, const Sharding& at, const Vocabulary& v, const BlockShape& before,
            const TokenEmbed& embed)
      : NetPart(index, "head"),
        e_(e),
        b_(e.b),
        at_(at),
        layers_(e, at),
        v_(v),
        before_(before),
        embed_(embed) {}
  void set_labels(const plan::View& v) { labels_ = v; }
  const plan::View& table() const { return linear_.weight; }

  void declare(Declare& d) override {
    const int64_t D = before_.width;
    d.norm(norm_, "norm", D, before_.eps, !before_.rms_norm);
    linear_.in = D, linear_.out = v_.held;
    if (v_.tied && at_.pp == 1) {
      linear_.weight = embed_.table();
      return;
    }
    // A tied copy starts with the same values, because they depend on the name.
    d.tensor(linear_.weight, true, {table_of(v_, v_.tied ? "embed.weight" : "head.weight", D)},
             v_.tied ? Held::second_of_two : Held::once);
  }
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward&) override {
    const int64_t R = at_.full_rows;
    in_ = in[0];
    norm_.x = in_.y ? receive_buffer(0) : in_.x;
    layers_.norm_forward("norm", "/forward", norm_, in_, true);
    logits_ = b_.saved("logits", e_.act, R * v_.held);
    layers_.linear_forward("head/forward", linear_, layers_.gathered("head/forward", norm_.h), logits_, R,
                           plan::View{});
    const int64_t first = at_.at.tp * v_.held,
                  padding = v_.held - std::clamp(v_.words - first, int64_t{0}, v_.held);
    cross_entropy_forward(e_, at_, {.rows = R, .cols = v_.held, .column0 = first, .padding = padding},
                          logits_, labels_, logits_);
    return {};
  }
  void backward(const std::vector<Gradient>&, std::vector<Gradient>& in) override {
    const int64_t R = at_.full_rows;
    const plan::View dh = b_.scratch("norm.dh.all", e_.act, R * before_.width);
    layers_.linear_backward_input("head", linear_, logits_, dh, R);
    const plan::View all = e_.split ? norm_.h : layers_.gathered("head/backward_weight", norm_.h);
    const plan::View own = layers_.result("head/backward_input", dh);
    layers_.linear_backward_weight("head", linear_, all, logits_, R);
    in[0].dy = layers_.norm_backward("norm", norm_, own, in[0].dx, true, in_);
  }
  plan::View last_gradient(bool weight) const override { return weight ? linear_.weight : norm_.gamma; }
  std::vector<int> backward_reads() const override {
    if (v_.tied) return {index(), embed_.index()};
    return {index()};
  }
  plan::View receive_buffer(size_t) override {
    const plan::InPart here(b_, index());
    return b_.saved("norm.x", before_.stream, at_.rows * before_.width);
  }

 private:
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const Vocabulary v_;
  const BlockShape before_;
  const TokenEmbed& embed_;
  Norm norm_;
  Linear linear_;
  Flow in_;
  plan::View labels_, logits_;
};

class LanguageModel : public Net {
 public:
  LanguageModel(Emission& e, const Sharding& at, const BlockShape& shape, int64_t depth, int64_t dense,
                const BlockShape& of_dense, const Vocabulary& v)
      : e_(e), at_(at), shape_(shape), tied_(v.tied && at.pp > 1) {
    embed_ = add_part(std::make_unique<TokenEmbed>(0, e, at, v, shape));
    for (int64_t i = 0; i < depth; ++i)
      blocks_.push_back(add_part(block_of(i, e, at, i < dense ? of_dense : shape)));
    const int last = here();
    head_ = add_part(std::make_unique<TokenHead>(last, e, at, v, shape, *embed_));
    streams_ = chained(here(), at, shape);
    batch_ = {{"tokens", plan::BatchRole::input, 0, DType::i32, shape.tokens, at.full_rows, true},
              {"labels", plan::BatchRole::target, last, DType::i32, shape.tokens, at.full_rows, true}};
    for (plan::BatchTensor& t : batch_) t.held = at.runs();
    metrics_ = {{"loss", 0, 1}};
    if (shape.of_experts.experts > 0)
      metrics_.insert(metrics_.end(), {{"imbalance", 1, 1}, {"balance", 2, 1}, {"dropped", 3, 1}});
  }
  plan::ImageAttrs fetch() const override {
    return {.rows = at_.full_rows, .batch = at_.batch, .token0 = at_.token0, .tokens = at_.tokens};
  }
  void fetched(size_t tensor, const plan::View& v) override {
    tensor == 0 ? embed_->set_tokens(v) : head_->set_labels(v);
  }
  // Each rank of context parallelism has the losses of its own tokens.
  int metrics_group() const override { return at_.cp_group; }
  // First and last stage each have a copy of a tied table, so their gradients are summed.
  void before_optimizer(const plan::Parameters& params) override {
    if (tied_) sum_tied_gradient(e_, at_, params, at_.at.pp == 0 ? embed_->table() : head_->table());
  }

  int64_t tallies() const override {
    const ExpertsShape& x = shape_.of_experts;
    return x.bias_rate > 0 ? x.blocks * x.experts : 0;
  }
  void after_metrics() override {
    for (Block* const block : blocks_) block->after_metrics();
  }

 private:
  Emission& e_;
  const Sharding& at_;
  const BlockShape shape_;
  const bool tied_;
  std::vector<Block*> blocks_;
  TokenEmbed* embed_;
  TokenHead* head_;
};

}  // namespace

std::unique_ptr<Net> language_model(Emission& e, const Sharding& at, const BlockShape& shape, int64_t depth,
                                    int64_t dense, const BlockShape& of_dense, const Vocabulary& v) {
  return std::make_unique<LanguageModel>(e, at, shape, depth, dense, of_dense, v);
}

}  // namespace isobar::nets
