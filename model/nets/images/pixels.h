// The loss of images, and the two ends of the NERSC ViT, image to image: patches and learned positions; a
// head without bias and a per-pixel loss, of which each rank sums its own rows.
//
//   embed   image [B,C,H,W] -> patches [rows, C p p] -> y [rows, D], positions as the residual
//   head    x [rows, D] -> norm -> prediction [rows, C' p p] -> loss and RMSE of each channel
#pragma once
#include <map>
#include <optional>

#include "model/base/spec/net_spec.h"
#include "model/nets/net.h"
#include "model/nets/transformer/block_shape.h"

namespace isobar::nets {

struct ImageShape {  // an image that is read or predicted, and its patch size
  int64_t channels, height, width, patch;
  int64_t size() const { return channels * height * width; }       // elements of one image
  int64_t patch_size() const { return channels * patch * patch; }  // elements
};

/// The image that a net reads, and the one it predicts.
ImageShape image_read(const Images& net, int64_t patch);
ImageShape image_predicted(const Images& net, int64_t patch);
/// Attributes of ops on images: the rows and their patches.
plan::ImageAttrs image_attrs(const ImageShape& image, const Sharding& at);

class PatchEmbed : public NetPart {
 public:
  PatchEmbed(int index, Emission& e, const Sharding& at, const ImageShape& image, int64_t width);
  void set_input(const plan::View& v) { input_ = v; }
  /// Roll-out: the known part of this step's input (absent: none).
  void set_forcing(const plan::View& v) { forcing_ = v; }
  /// Sets the part of the input that is predicted in a roll-out. `state`: also gives the newest state, in the
  /// layout of a prediction.
  void rolls(const ImageShape& predicted, bool state) { predicted_ = predicted, gives_state_ = state; }
  /// The previous step's prediction (absent: this is the first step).
  void set_before(const plan::View& v) { before_ = v; }
  /// The buffer of its gradient.
  void set_before_gradient(const plan::View& v) { before_gradient_ = v; }

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>&, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  plan::View last_gradient(bool) const override { return patch_.weight; }
  std::vector<int> backward_reads() const override {
    return e_.to_input() || e_.roll.gradient_before() ? std::vector<int>{index()} : std::vector<int>{};
  }

 private:
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const ImageShape image_;
  const int64_t D_;
  Linear patch_;
  plan::View pos_;  // [N, D]
  plan::View input_, patches_;

  void read();
  plan::View newest_state();
  plan::RollAttrs roll_attrs() const;
  void gradient_for_previous_step(const Gradient& out, const plan::View& dstate);
  ImageShape predicted_{};
  bool gives_state_ = false;
  plan::View forcing_, before_, before_gradient_;
};

/// The loss of a prediction in patches, and its gradient.
class PixelLoss {
 public:
  PixelLoss(Emission& e, const Sharding& at, const ImageShape& image)
      : e_(e), b_(e.b), at_(at), image_(image) {}
  /// `mask`: 1 where the target counts, in the target's layout; absent: everywhere.
  void forward(const plan::View& pred, const plan::View& target, const plan::View& mask);
  plan::View backward(const plan::View& pred, const plan::View& target,
                      const plan::View& mask);  // of the prediction's type

 private:
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  plan::LossAttrs attrs();
  const ImageShape image_;
  std::optional<plan::LossAttrs> settings_;  // without the image
  plan::View sums_;
};

class PixelHead : public NetPart {
 public:
  PixelHead(int index, Emission& e, const Sharding& at, const ImageShape& image, const BlockShape& before);
  void set_target(const plan::View& v) { target_ = v; }
  void set_mask(const plan::View& v) { mask_ = v; }
  /// Predicts an increment to the newest state, its second input stream.
  void adds_to_state() { adds_ = true; }
  DType predicted_type() const { return adds_ ? DType::f32 : e_.act; }
  plan::View predicted() const { return predicted_; }  // [rows, p p C']
  /// Roll-out: the gradient of its prediction from the next step.
  void set_next_gradient(const plan::View& v) { next_gradient_ = v; }

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  plan::View last_gradient(bool weight) const override { return weight ? head_.weight : norm_.gamma; }
  plan::View receive_buffer(size_t port) override;

 private:
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  PixelLoss loss_;
  const int64_t patch_size_;
  const BlockShape before_;
  Norm norm_;
  Linear head_;
  Flow in_;
  plan::View target_, mask_, pred_, predicted_, next_gradient_;
  bool adds_ = false;
};

/// Both ends of a net of images, which roll out together.
class PixelEnds : public RollOut {
 public:
  PixelEnds(Emission& e, const Sharding& at, const ImageShape& read, const ImageShape& predicted,
            PatchEmbed* embed, PixelHead* head);

  /// The additional stream of a net that predicts increments; {}: it predicts states.
  std::vector<plan::Stream> state() const;
  std::vector<plan::BatchTensor> batch() const;
  plan::ImageAttrs fetch() const { return image_attrs(read_, at_); }
  void fetched(const plan::BatchTensor& t, const plan::View& v);

  std::vector<plan::Stream> feedback() const override;
  plan::View predicted() const override { return head_->predicted(); }
  void before(const plan::View& v) override;
  void gradient(const plan::View& v) override { embed_->set_before_gradient(v), head_->set_next_gradient(v); }

 private:
  Emission& e_;
  const Sharding& at_;
  const ImageShape read_, predicted_;
  PatchEmbed* embed_;
  PixelHead* head_;
  std::map<int32_t, plan::View> forcings_;  // by step
};

/// A net from image to image. A kind's constructor adds parts and streams, and then calls end().
class ImageNet : public Net {
 public:
  plan::ImageAttrs fetch() const override { return ends_->fetch(); }
  void fetched(size_t tensor, const plan::View& v) override { ends_->fetched(batch_[tensor], v); }
  RollOut* roll_out() override { return &*ends_; }

 protected:
  void end(Emission& e, const Sharding& at, const ImageShape& read, const ImageShape& predicted,
           PatchEmbed* embed, PixelHead* head);

 private:
  std::optional<PixelEnds> ends_;
};

/// The batch tensors of both ends; `last`: the head's part. In a roll-out the first fetch brings all steps'
/// tensors: a target, and its mask, for each step in the loss.
std::vector<plan::BatchTensor> image_batch(const RunSpec& spec, const ImageShape& read,
                                           const ImageShape& predicted, const Sharding& at, int last);
/// Adds the next step's gradient to that of this step's prediction.
void emit_next_gradient(Emission& e, const plan::View& next, const plan::View& dpred);
std::vector<plan::Metric> image_metrics(const ImageShape& image);

}  // namespace isobar::nets
