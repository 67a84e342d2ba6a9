#include "model/nets/pixels.h"

#include <cmath>

#include "model/nets/declare.h"

namespace isobar {

Attrs image_attrs(const ImageShape& image, const Sharding& at) {
  return {.m = at.rows,
          .batch = at.batch,
          .row0 = at.row0,
          .channels = image.channels,
          .height = image.height,
          .width = image.width,
          .patch = image.patch,
          .token0 = at.token0,
          .tokens = at.tokens};
}

ImageShape image_read(const Images& net, int64_t patch) {
  return {net.in_channels, net.img_height, net.img_width, patch};
}

ImageShape image_predicted(const Images& net, int64_t patch) {
  return {net.out_channels, net.img_height, net.img_width, patch};
}

std::vector<BatchTensor> image_batch(const ImageShape& read, const ImageShape& predicted, const Sharding& at,
                                     int last) {
  return {
      {"input", BatchRole::input, 0, DType::f32, read.size(), at.batch * read.size(), false},
      {"target", BatchRole::target, last, DType::f32, predicted.size(), at.batch * predicted.size(), true}};
}

std::vector<Metric> image_metrics(const ImageShape& image) {
  return {{"loss", 0, 1}, {"rmse", 1, image.channels}};
}

// ---- embed ----

PatchEmbed::PatchEmbed(int index, Emission& e, const Sharding& at, const ImageShape& image, int64_t width)
    : NetPart(index, "embed"), e_(e), b_(e.b), at_(at), layers_(e, at), image_(image), D_(width) {}

void PatchEmbed::declare(Declare& d) {
  // The patch convolution keeps PyTorch's default: uniform within 1/sqrt(fan_in), weight and bias.
  const int64_t P = image_.patch_size(), p = image_.patch;
  const float fan = 1.0f / std::sqrt(static_cast<float>(P));
  const int64_t tokens = image_.height / p * (image_.width / p);
  patch_.in = P, patch_.out = D_;
  d.tensor(patch_.weight, true, {{"patch_embed.weight", {D_, image_.channels, p, p}, Init::uniform, fan}});
  d.tensor(patch_.bias, false, {{"patch_embed.bias", {D_}, Init::uniform, fan}});
  d.tensor(pos_, false, {{"pos_embed", {tokens, D_}, Init::normal, kSigma}});
}

std::vector<Flow> PatchEmbed::forward(const std::vector<Flow>&, const Forward&) {
  patches_ = b_.saved("patches", e_.act, at_.rows * image_.patch_size());
  b_.emit(OpKind::patch_gather, "patch_embed/gather", image_attrs(image_, at_), {input_}, {patches_});
  const View y = b_.scratch("patch_embed.y", e_.act, at_.rows * D_);
  layers_.linear_forward("patch_embed/forward", patch_, patches_, y, at_.rows, patch_.bias);
  // Positions repeat for every image of the batch.
  return {{.x = pos_.slice(at_.token0 * D_, at_.tokens * D_),
           .y = y,
           .period = at_.tokens,
           .linear = "patch_embed",
           .bias = patch_.bias}};
}

void PatchEmbed::backward(const std::vector<Gradient>& out, std::vector<Gradient>&) {
  const View mine = pos_.slice(at_.token0 * D_, at_.tokens * D_);
  const bool partial = at_.cp > 1 && !e_.accumulates();  // other tokens' rows get nothing here
  if (partial)
    b_.emit(OpKind::zero, "pos_embed/backward_zero", {.m = 1, .n = pos_.count}, {}, {b_.grad(pos_)});
  const Attrs pos{.m = at_.rows,
                  .n = D_,
                  .accumulate = e_.accumulates() || partial,
                  .period = at_.tokens,
                  .row0 = at_.row0};
  b_.emit(OpKind::period_sum, "pos_embed/backward", pos, {out[0].dx}, {b_.grad(mine)});
  if (e_.input_gradient) {
    const View dpatches = b_.plan.input_gradient =
        b_.io("input_gradient", e_.act, at_.rows * image_.patch_size());
    layers_.linear_backward_input("patch_embed", patch_, out[0].dy, dpatches, at_.rows);
  }
  layers_.linear_backward_weight("patch_embed", patch_, patches_, out[0].dy, at_.rows);
}

// ---- loss ----

void PixelLoss::forward(const View& pred, const View& target) {
  sums_ = b_.saved("loss.sums", DType::f32, at_.batch * (2 + image_.channels));
  Attrs a = image_attrs(image_, at_);
  b_.emit(OpKind::loss_sums, "loss/sums", a, {pred, target}, {sums_});
  if (at_.sample_group >= 0)
    b_.emit(OpKind::all_reduce, "loss/sums/all_reduce", {.group = at_.sample_group}, {sums_}, {sums_},
            Lane::cp);
  a.scale = 1.0f / static_cast<float>(e_.spec.micro_batches() * e_.spec.layout.dp);
  b_.emit(OpKind::loss, "loss/forward", a, {sums_, b_.plan.scalars}, {b_.plan.metrics});
}

View PixelLoss::backward(const View& pred, const View& target) {
  const View dpred = e_.operand("dpred", e_.act, at_.rows * image_.patch_size());
  Attrs a = image_attrs(image_, at_);
  a.scale = 1.0f / static_cast<float>(e_.spec.train.global_batch);
  b_.emit(OpKind::loss_backward, "loss/backward", a,
          {pred, target, sums_, e_.act == DType::f16 ? b_.plan.scalars : View{}}, {dpred});
  return dpred;
}

// ---- head ----

PixelHead::PixelHead(int index, Emission& e, const Sharding& at, const ImageShape& image,
                     const BlockShape& before)
    : NetPart(index, "head"),
      e_(e),
      b_(e.b),
      at_(at),
      layers_(e, at),
      loss_(e, at, image),
      patch_size_(image.patch_size()),
      before_(before) {}

void PixelHead::declare(Declare& d) {
  const int64_t D = before_.width;
  d.norm(norm_, "norm", D, before_.eps, true);
  head_.in = D, head_.out = patch_size_;
  d.tensor(head_.weight, true, {{"head.weight", {patch_size_, D}, Init::normal, kSigma}});
}

std::vector<Flow> PixelHead::forward(const std::vector<Flow>& in, const Forward&) {
  in_ = in[0];
  norm_.x = b_.saved("norm.x", before_.stream, at_.rows * before_.width);
  layers_.norm_forward("norm", "/forward", norm_, in_, true);
  pred_ = b_.saved("pred", e_.act, at_.rows * patch_size_);
  layers_.linear_forward("head/forward", head_, norm_.h, pred_, at_.rows, View{});
  loss_.forward(pred_, target_);
  return {};
}

void PixelHead::backward(const std::vector<Gradient>&, std::vector<Gradient>& in) {
  const View dpred = loss_.backward(pred_, target_);
  const View dh = b_.scratch("norm.dh", e_.act, at_.rows * before_.width);
  layers_.linear_backward_input("head", head_, dpred, dh, at_.rows);
  layers_.linear_backward_weight("head", head_, norm_.h, dpred, at_.rows);
  in[0].dy = layers_.norm_backward("norm", norm_, dh, in[0].dx, true, in_);
}

}  // namespace isobar
