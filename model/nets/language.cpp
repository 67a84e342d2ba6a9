#include "model/nets/language.h"

#include "model/nets/declare.h"

namespace isobar {
namespace {

int64_t padded_vocabulary(const RunSpec& s) {  // of one rank
  const int64_t unit = 128 * s.layout.tp;
  return (s.net.vocab_size + unit - 1) / unit * 128;
}

}  // namespace

LanguageEnds::LanguageEnds(Builder& b, const RunSpec& spec, const Sharding& at, BlockEmitter& block,
                           DType act)
    : b_(b),
      s_(spec),
      n_(spec.net),
      at_(at),
      block_(block),
      act_(act),
      D_(spec.net.embed_dim),
      R_(at.full_rows),
      vocab_(padded_vocabulary(spec)) {}

// ---- parameters ----

void LanguageEnds::declare_first(const Declare& declare) {
  declare(table_, true, {"embed.weight", {vocab_ * at_.tp, D_}, Init::normal, 0.02f, 0},
          tied_over_stages() ? Held::first_of_two : Held::once);
  if (!n_.rms_norm())
    declare(positions_, true, {"pos_embed", {n_.tokens(), D_}, Init::normal, 0.02f}, Held::once);
}

void LanguageEnds::declare_last(const Declare& declare, bool with_first) {
  if (n_.tie_embeddings && with_first) {
    head_ = table_;
  } else {
    // A tied copy starts with the same values, because they depend on the name.
    const char* name = n_.tie_embeddings ? "embed.weight" : "head.weight";
    declare(head_, true, {name, {vocab_ * at_.tp, D_}, Init::normal, 0.02f, 0},
            n_.tie_embeddings ? Held::second_of_two : Held::once);
  }
  head_linear_ = {head_, View{}, D_, vocab_};
}

bool LanguageEnds::tied_over_stages() const {
  return n_.tie_embeddings && at_.pp > 1;
}

// ---- forward ----

Attrs LanguageEnds::vocabulary() const {
  return {.m = R_, .n = vocab_};
}

void LanguageEnds::emit_fetch(const Stage& stage) {
  if (stage.is_first) tokens_ = b_.saved("tokens", DType::i32, R_);
  if (stage.is_last) {
    const InPart head(b_, head_of(n_));
    labels_ = b_.saved("labels", DType::i32, R_);
  }
  b_.emit(OpKind::fetch, "data/fetch",
          {.m = R_, .n = 1, .batch = at_.batch, .token0 = at_.token0, .tokens = at_.tokens}, {},
          {stage.is_first ? tokens_ : View{}, stage.is_last ? labels_ : View{}});
}

Ends::Stream LanguageEnds::emit_first(const Block& next) {
  first_ = true;
  const bool scattered = at_.sequence;
  const View x = block_.door(next);
  const View whole = scattered ? b_.scratch("embed.x", act_, R_ * D_) : x;
  b_.emit(OpKind::embedding, "embed/forward", {.m = R_, .n = D_, .token0 = at_.token0, .tokens = at_.tokens},
          {tokens_, b_.weight(table_), positions_ ? b_.weight(positions_) : View{}}, {whole});
  if (scattered) {
    Attrs a{.group = at_.tp_group};
    a.send = at_.row_elements(D_);
    b_.emit(OpKind::reduce_scatter, "embed/forward/reduce_scatter", a, {whole}, {x}, Lane::tp);
  } else {
    block_.result("embed/forward", x);
  }
  block_.dropout("embed/dropout", x, true);
  return {x, View{}, 0};
}

// What the ranks of a vocabulary know of each row, added up (or its largest value taken)
void LanguageEnds::reduce_rows(const std::string& path, const View& x) {
  if (at_.tp > 1) b_.emit(OpKind::all_reduce, path, {.group = at_.tp_group}, {x}, {x}, Lane::tp);
}

void LanguageEnds::emit_last(const View& h) {
  last_ = true;
  logits_ = b_.saved("logits", act_, R_ * vocab_);
  block_.linear_forward("head/forward", head_linear_, block_.gathered("head/forward", h), logits_, R_,
                        View{});
  const View largest = b_.scratch("loss.max", DType::f32, R_),
             sums = b_.scratch("loss.sums", DType::f32, 2 * R_);
  b_.emit(OpKind::cross_entropy_max, "loss/max", vocabulary(), {logits_}, {largest});
  reduce_rows("loss/max/all_reduce", largest);
  b_.emit(OpKind::cross_entropy_sums, "loss/sums", vocabulary(), {logits_, labels_, largest}, {sums});
  reduce_rows("loss/sums/all_reduce", sums);
  Attrs a = vocabulary();
  a.scale = 1.0f / static_cast<float>(s_.train.global_batch * n_.tokens());
  b_.emit(OpKind::cross_entropy, "loss/forward", a, {logits_, labels_, largest, sums},
          {logits_, b_.plan.metrics});
}

// ---- backward ----

View LanguageEnds::emit_backward_last(const View& h) {
  const View dh = b_.scratch("norm.dh.all", act_, R_ * D_);
  block_.linear_backward_input("head", head_linear_, logits_, dh, R_);
  const View all = block_.split() ? h : block_.gathered("head/backward_weight", h);
  const View own = block_.result("head/backward_input", dh);
  block_.linear_backward_weight("head", head_linear_, all, logits_, R_);
  return own;
}

void LanguageEnds::emit_backward_first(const View& dx, const View&, bool) {
  const View all = block_.gathered("embed/backward", dx);
  b_.emit(OpKind::embedding_backward, "embed/backward",
          {.m = R_, .n = D_, .accumulate = true, .token0 = at_.token0, .tokens = at_.tokens}, {tokens_, all},
          {b_.grad(table_), positions_ ? b_.grad(positions_) : View{}});
}

void LanguageEnds::emit_tied_reduction(const Parameters& params) {
  if (!tied_over_stages() || !(first_ || last_)) return;
  const std::vector<int> ranks = group_of(s_.layout, "pp", b_.plan.rank);
  const int group = b_.group("embedding", {ranks.front(), ranks.back()});
  const View g = params.kept_gradient(first_ ? table_ : head_);
  b_.emit(OpKind::all_reduce, "optimizer/embedding/all_reduce", {.group = group}, {g}, {g}, Lane::dp);
}

}  // namespace isobar
