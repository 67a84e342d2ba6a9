#include "model/nets/images/pixels.h"

#include <cmath>

#include "model/base/loss_sums.h"
#include "model/base/step_tensor.h"
#include "model/nets/declare.h"
#include "model/nets/loss_settings.h"

namespace isobar::nets {

plan::ImageAttrs image_attrs(const ImageShape& image, const Sharding& at) {
  return {.rows = at.rows,
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

std::vector<plan::BatchTensor> image_batch(const RunSpec& spec, const ImageShape& read,
                                           const ImageShape& predicted, const Sharding& at, int last) {
  std::vector<plan::BatchTensor> out{
      {"input", plan::BatchRole::input, 0, DType::f32, read.size(), at.batch * read.size(), false}};
  plan::BatchTensor of_a_step{"target",         plan::BatchRole::target,     last, DType::f32,
                              predicted.size(), at.batch * predicted.size(), true};
  const auto first = static_cast<int32_t>(spec.train.rollout - spec.learnt_steps());
  const auto add = [&] {
    for (int32_t k = first; k < spec.train.rollout; ++k) {
      out.push_back(of_a_step);
      out.back().name = step_tensor(of_a_step.name, k - first);
      out.back().step = k;
    }
  };
  add();
  if (!spec.masks_targets()) return out;
  of_a_step.name = "mask", of_a_step.role = plan::BatchRole::mask;
  add();
  return out;
}

void emit_next_gradient(Emission& e, const plan::View& next, const plan::View& dpred) {
  if (!e.roll.last && e.roll.all)
    e.b.emit<plan::OpKind::cast>("head/next", {.count = next.count, .accumulate = true}, {next}, {dpred});
}

std::vector<plan::Metric> image_metrics(const ImageShape& image) {
  return {{"loss", 0, 1}, {"rmse", 1, image.channels}};
}

// ---- embed ----

PatchEmbed::PatchEmbed(int index, Emission& e, const Sharding& at, const ImageShape& image, int64_t width)
    : NetPart(index, "embed"), e_(e), b_(e.b), at_(at), layers_(e, at), image_(image), D_(width) {}

void PatchEmbed::declare(Declare& d) {
  // The patch convolution has PyTorch's default initialisation: uniform within 1/sqrt(fan_in), weight and
  // bias.
  const int64_t P = image_.patch_size(), p = image_.patch;
  const float fan = 1.0f / std::sqrt(static_cast<float>(P));
  const int64_t tokens = image_.height / p * (image_.width / p);
  patch_.in = P, patch_.out = D_;
  d.tensor(patch_.weight, true,
           {{"patch_embed.weight", {D_, image_.channels, p, p}, plan::Init::uniform, fan}});
  d.tensor(patch_.bias, false, {{"patch_embed.bias", {D_}, plan::Init::uniform, fan}});
  d.tensor(pos_, false, {{"pos_embed", {tokens, D_}, plan::Init::normal, kSigma}});
}

plan::RollAttrs PatchEmbed::roll_attrs() const {
  return {image_attrs(image_, at_), predicted_.channels, e_.spec.data.history};
}

// The first step reads fetched data; later ones read the previous prediction, after the states of its history
// that are still needed.
void PatchEmbed::read() {
  patches_ = b_.saved("patches", e_.act, at_.rows * image_.patch_size());
  if (!before_) {
    b_.emit<plan::OpKind::patch_gather>("patch_embed/gather", image_attrs(image_, at_), {input_}, {patches_});
    return;
  }
  const plan::RollAttrs a = roll_attrs();
  const plan::View older = a.history > 1 ? patches_.of_before(e_.roll.slots_back) : plan::View{};
  b_.emit<plan::OpKind::roll>("patch_embed/roll", a, {before_, older, forcing_}, {patches_});
}

// In the layout of a prediction, in f32, so that fetched data is not rounded.
plan::View PatchEmbed::newest_state() {
  if (before_) return before_;
  plan::View whole = patches_;
  if (e_.act != DType::f32) {
    whole = b_.scratch("patches.f32", DType::f32, patches_.count);
    b_.emit<plan::OpKind::patch_gather>("patch_embed/state/gather", image_attrs(image_, at_), {input_},
                                        {whole});
  }
  const plan::View state = b_.scratch("state", DType::f32, at_.rows * predicted_.patch_size());
  b_.emit<plan::OpKind::unroll>("patch_embed/state", roll_attrs(), {whole}, {state, plan::View{}});
  return state;
}

std::vector<Flow> PatchEmbed::forward(const std::vector<Flow>&, const Forward&) {
  read();
  const plan::View y = b_.scratch("patch_embed.y", e_.act, at_.rows * D_);
  layers_.linear_forward("patch_embed/forward", patch_, patches_, y, at_.rows, patch_.bias);
  // Positions repeat for every image of the batch.
  std::vector<Flow> out{{.x = pos_.slice(at_.token0 * D_, at_.tokens * D_),
                         .y = y,
                         .period = at_.tokens,
                         .row0 = at_.row0,
                         .linear = "patch_embed",
                         .bias = patch_.bias}};
  if (gives_state_) out.push_back({.x = newest_state()});
  return out;
}

// Gradients for the previous step: of its prediction, and of the states of its history that this step read.
void PatchEmbed::gradient_for_previous_step(const Gradient& out, const plan::View& dstate) {
  const int64_t history = e_.spec.data.history, count = at_.rows * image_.patch_size();
  const bool carried = history > 1;
  const plan::View dpatches =
      carried ? b_.saved("dpatches", DType::f32, count) : b_.scratch("dpatches", e_.act, count);
  layers_.linear_backward_input("patch_embed", patch_, out.dy, dpatches, at_.rows, carried && !e_.roll.last);
  const bool before_carries = carried && !e_.roll.second;
  b_.emit<plan::OpKind::unroll>(
      "patch_embed/unroll", roll_attrs(), {dpatches},
      {before_gradient_, before_carries ? dpatches.of_before(e_.roll.slots_back) : plan::View{}});
  if (dstate)
    b_.emit<plan::OpKind::cast>("patch_embed/state/backward", {.count = dstate.count, .accumulate = true},
                                {dstate}, {before_gradient_});
}

void PatchEmbed::backward(const std::vector<Gradient>& out, std::vector<Gradient>&) {
  if (e_.roll.gradient_before()) gradient_for_previous_step(out[0], gives_state_ ? out[1].dx : plan::View{});
  const plan::View mine = pos_.slice(at_.token0 * D_, at_.tokens * D_);
  const bool partial = at_.cp > 1 && !e_.accumulates();  // other tokens' rows get nothing here
  if (partial)
    b_.emit<plan::OpKind::zero>("pos_embed/backward_zero", {.count = pos_.count}, {}, {b_.grad(pos_)});
  const plan::PeriodSumAttrs pos{.rows = at_.rows,
                                 .cols = D_,
                                 .accumulate = e_.accumulates() || partial,
                                 .period = at_.tokens,
                                 .row0 = at_.row0};
  b_.emit<plan::OpKind::period_sum>("pos_embed/backward", pos, {out[0].dx}, {b_.grad(mine)});
  if (e_.to_input()) {
    const plan::View dpatches = b_.plan.input_gradient =
        b_.io("input_gradient", e_.act, at_.rows * image_.patch_size());
    layers_.linear_backward_input("patch_embed", patch_, out[0].dy, dpatches, at_.rows);
  }
  layers_.linear_backward_weight("patch_embed", patch_, patches_, out[0].dy, at_.rows);
}

// ---- loss ----

plan::LossAttrs PixelLoss::attrs() {
  if (!settings_) settings_ = loss_settings(e_.spec.train);
  plan::LossAttrs a = *settings_;
  a.image = image_attrs(image_, at_);
  return a;
}

void PixelLoss::forward(const plan::View& pred, const plan::View& target, const plan::View& mask) {
  sums_ =
      b_.saved("loss.sums", DType::f32, at_.batch * loss_sums_size(image_.channels, static_cast<bool>(mask)));
  plan::LossAttrs a = attrs();
  std::vector<plan::View> reads{pred, target};
  if (mask) reads.push_back(mask);
  b_.emit<plan::OpKind::loss_sums>("loss/sums", a, std::move(reads), {sums_});
  if (at_.sample_group >= 0)
    b_.emit<plan::OpKind::all_reduce>("loss/sums/all_reduce", {.group = at_.sample_group}, {sums_}, {sums_},
                                      plan::Lane::cp);
  a.weight = 1.0f / static_cast<float>(e_.spec.micro_batches() * e_.spec.layout.dp * e_.roll.counted);
  b_.emit<plan::OpKind::loss>("loss/forward", a, {sums_, b_.plan.scalars}, {b_.plan.metrics});
}

plan::View PixelLoss::backward(const plan::View& pred, const plan::View& target, const plan::View& mask) {
  const plan::View dpred =
      e_.operand("dpred", b_.plan.buffers[pred.buffer].dtype, at_.rows * image_.patch_size());
  plan::LossAttrs a = attrs();
  a.weight = 1.0f / static_cast<float>(e_.spec.train.global_batch * e_.roll.counted);
  std::vector<plan::View> reads{pred, target, sums_, e_.act == DType::f16 ? b_.plan.scalars : plan::View{}};
  if (mask) reads.push_back(mask);
  b_.emit<plan::OpKind::loss_backward>("loss/backward", a, std::move(reads), {dpred});
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
  d.tensor(head_.weight, true, {{"head.weight", {patch_size_, D}, plan::Init::normal, kSigma}});
}

std::vector<Flow> PixelHead::forward(const std::vector<Flow>& in, const Forward&) {
  in_ = in[0];
  norm_.x = in_.y ? receive_buffer(0) : in_.x;
  layers_.norm_forward("norm", "/forward", norm_, in_, true);
  pred_ = b_.saved("pred", e_.act, at_.rows * patch_size_);
  layers_.linear_forward("head/forward", head_, norm_.h, pred_, at_.rows, plan::View{});
  predicted_ = pred_;
  if (adds_) {
    predicted_ = b_.saved("predicted", DType::f32, pred_.count);
    b_.emit<plan::OpKind::residual_add>("head/add", {.rows = 1, .cols = pred_.count}, {in[1].x, pred_},
                                        {predicted_});
  }
  if (e_.roll.counts()) loss_.forward(predicted_, target_, mask_);
  return {};
}

// Port 1 is the newest state, which only forward reads.
plan::View PixelHead::receive_buffer(size_t port) {
  const plan::InPart here(b_, index());
  return port == 1 ? b_.scratch("state", DType::f32, at_.rows * patch_size_)
                   : b_.saved("norm.x", before_.stream, at_.rows * before_.width);
}

void PixelHead::backward(const std::vector<Gradient>&, std::vector<Gradient>& in) {
  plan::View dpred = loss_.backward(predicted_, target_, mask_);
  emit_next_gradient(e_, next_gradient_, dpred);
  if (adds_) {
    b_.convert("head/state/backward", dpred, in[1].dx);
    if (e_.act != DType::f32) {
      const plan::View rounded = e_.operand("dincrement", e_.act, dpred.count);
      b_.convert("head/add/backward", dpred, rounded);
      dpred = rounded;
    }
  }
  const plan::View dh = b_.scratch("norm.dh", e_.act, at_.rows * before_.width);
  layers_.linear_backward_input("head", head_, dpred, dh, at_.rows);
  layers_.linear_backward_weight("head", head_, norm_.h, dpred, at_.rows);
  in[0].dy = layers_.norm_backward("norm", norm_, dh, in[0].dx, true, in_);
}

// ---- both ends ----

PixelEnds::PixelEnds(Emission& e, const Sharding& at, const ImageShape& read, const ImageShape& predicted,
                     PatchEmbed* embed, PixelHead* head)
    : e_(e), at_(at), read_(read), predicted_(predicted), embed_(embed), head_(head) {
  const bool adds = e.spec.train.prediction == PredictionKind::increment;
  embed->rolls(predicted, adds);
  if (adds) head->adds_to_state();
}

void ImageNet::end(Emission& e, const Sharding& at, const ImageShape& read, const ImageShape& predicted,
                   PatchEmbed* embed, PixelHead* head) {
  ends_.emplace(e, at, read, predicted, embed, head);
  for (const plan::Stream& s : ends_->state()) streams_.push_back(s);
  batch_ = ends_->batch();
  metrics_ = image_metrics(predicted);
}

std::vector<plan::Stream> PixelEnds::state() const {
  if (e_.spec.train.prediction != PredictionKind::increment) return {};
  return {{"state", 0, head_->index(), DType::f32, at_.rows * predicted_.patch_size()}};
}

std::vector<plan::Stream> PixelEnds::feedback() const {
  if (!e_.spec.reads_predictions()) return {};
  return {{"prediction", head_->index(), 0, head_->predicted_type(), at_.rows * predicted_.patch_size()}};
}

std::vector<plan::BatchTensor> PixelEnds::batch() const {
  std::vector<plan::BatchTensor> out = image_batch(e_.spec, read_, predicted_, at_, head_->index());
  const int64_t steps = e_.spec.train.rollout, known = e_.spec.known_channels() * read_.height * read_.width;
  for (int32_t k = 1; k < steps && known > 0; ++k) {
    out.push_back({step_tensor("forcing", k - 1), plan::BatchRole::forcing, 0, DType::f32, known,
                   at_.batch * known, true});
    out.back().step = k;
  }
  return out;
}

// The view in the first step's slot, though a later step's slot may hold it.
void PixelEnds::fetched(const plan::BatchTensor& t, const plan::View& v) {
  const plan::View own = v.of_before(-v.back);
  if (t.role == plan::BatchRole::input) embed_->set_input(own);
  if (t.role == plan::BatchRole::target) head_->set_target(own);
  if (t.role == plan::BatchRole::mask) head_->set_mask(own);
  if (t.role == plan::BatchRole::forcing) forcings_[t.step] = own;
}

void PixelEnds::before(const plan::View& v) {
  embed_->set_before(v);
  const auto known = forcings_.find(e_.roll.step);
  embed_->set_forcing(known == forcings_.end() ? plan::View{} : known->second);
}

}  // namespace isobar::nets
