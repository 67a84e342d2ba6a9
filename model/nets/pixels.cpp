#include "model/nets/pixels.h"

#include <cmath>

#include "model/nets/declare.h"

namespace isobar {

PixelEnds::PixelEnds(Builder& b, const RunSpec& spec, const Sharding& at, BlockEmitter& block, DType act)
    : b_(b),
      s_(spec),
      n_(spec.net),
      at_(at),
      block_(block),
      act_(act),
      D_(n_.embed_dim),
      P_(n_.in_channels * n_.patch_size * n_.patch_size) {}

// ---- parameters ----

void PixelEnds::declare_first(const Declare& declare) {
  // The patch convolution keeps PyTorch's default: uniform within 1/sqrt(fan_in), weight and bias.
  const float fan = 1.0f / std::sqrt(static_cast<float>(P_));
  const int64_t p = n_.patch_size;
  patch_.in = P_, patch_.out = D_;
  declare(patch_.weight, true, {"patch_embed.weight", {D_, n_.in_channels, p, p}, Init::uniform, fan},
          Held::once);
  declare(patch_.bias, false, {"patch_embed.bias", {D_}, Init::uniform, fan}, Held::once);
  declare(pos_, false, {"pos_embed", {n_.tokens(), D_}, Init::normal, 0.02f}, Held::once);
}

void PixelEnds::declare_last(const Declare& declare, bool) {
  head_.in = D_, head_.out = P_;
  declare(head_.weight, true, {"head.weight", {P_, D_}, Init::normal, 0.02f}, Held::once);
}

// ---- forward ----

Attrs PixelEnds::image() const {
  return {.m = at_.rows,
          .batch = at_.batch,
          .row0 = at_.row0,
          .channels = n_.in_channels,
          .height = n_.img_height,
          .width = n_.img_width,
          .patch = n_.patch_size,
          .token0 = at_.token0,
          .tokens = at_.tokens};
}

void PixelEnds::emit_fetch(const Stage& stage) {
  const int64_t pixels = at_.batch * n_.in_channels * n_.img_height * n_.img_width;
  input_ = stage.is_first ? b_.scratch("input", DType::f32, pixels) : View{};
  if (stage.is_last) {
    const InPart head(b_, head_of(n_));
    target_ = b_.saved("target", DType::f32, pixels);
  }
  b_.emit(OpKind::fetch, "data/fetch", image(), {}, {input_, stage.is_last ? target_ : View{}});
}

Ends::Stream PixelEnds::emit_first(const Block&) {
  patches_ = b_.saved("patches", act_, at_.rows * P_);
  b_.emit(OpKind::patch_gather, "patch_embed/gather", image(), {input_}, {patches_});
  const View y = b_.scratch("patch_embed.y", act_, at_.rows * D_);
  block_.linear_forward("patch_embed/forward", patch_, patches_, y, at_.rows, patch_.bias);
  // Positions repeat for every image of the batch.
  return {pos_.slice(at_.token0 * D_, at_.tokens * D_), y, at_.tokens};
}

void PixelEnds::emit_last(const View& h) {
  pred_ = b_.saved("pred", act_, at_.rows * P_);
  block_.linear_forward("head/forward", head_, h, pred_, at_.rows, View{});
  sums_ = b_.saved("loss.sums", DType::f32, at_.batch * (2 + n_.out_channels));
  b_.emit(OpKind::loss_sums, "loss/sums", image(), {pred_, target_}, {sums_});
  if (at_.sample_group >= 0)
    b_.emit(OpKind::all_reduce, "loss/sums/all_reduce", {.group = at_.sample_group}, {sums_}, {sums_},
            Lane::cp);
  Attrs a = image();
  a.scale = 1.0f / static_cast<float>(s_.micro_batches() * s_.layout.dp);
  b_.emit(OpKind::loss, "loss/forward", a, {sums_}, {b_.plan.metrics});
}

// ---- backward ----

View PixelEnds::emit_backward_last(const View& h) {
  const View dpred = block_.operand("dpred", act_, at_.rows * P_);
  Attrs a = image();
  a.scale = 1.0f / static_cast<float>(s_.train.global_batch);
  b_.emit(OpKind::loss_backward, "loss/backward", a,
          {pred_, target_, sums_, act_ == DType::f16 ? b_.plan.scalars : View{}}, {dpred});
  const View dh = b_.scratch("norm.dh", act_, at_.rows * D_);
  block_.linear_backward_input("head", head_, dpred, dh, at_.rows);
  block_.linear_backward_weight("head", head_, h, dpred, at_.rows);
  return dh;
}

void PixelEnds::emit_backward_first(const View& dx, const View& dy, bool accumulate) {
  const View mine = pos_.slice(at_.token0 * D_, at_.tokens * D_);
  const bool partial = at_.cp > 1 && !accumulate;  // other tokens' rows get nothing here
  if (partial)
    b_.emit(OpKind::zero, "pos_embed/backward_zero", {.m = 1, .n = pos_.count}, {}, {b_.grad(pos_)});
  const Attrs pos{
      .m = at_.rows, .n = D_, .accumulate = accumulate || partial, .period = at_.tokens, .row0 = at_.row0};
  b_.emit(OpKind::period_sum, "pos_embed/backward", pos, {dx}, {b_.grad(mine)});
  block_.linear_backward_weight("patch_embed", patch_, patches_, dy, at_.rows);
}

}  // namespace isobar
