// The loss of images, and the two ends of the NERSC ViT, image to image: patches and learned positions; head
// without bias and a loss per pixel of which each rank sums its own rows.
//
//   embed   image [B,C,H,W] -> patches [rows, C p p] -> y [rows, D], positions as the residual
//   head    x [rows, D] -> norm -> prediction [rows, C' p p] -> loss and RMSE of each channel
#pragma once
#include "model/base/net_spec.h"
#include "model/nets/block_shape.h"
#include "model/nets/net.h"

namespace isobar {

struct ImageShape {  // what is read or predicted, and in patches of which size
  int64_t channels, height, width, patch;
  int64_t size() const { return channels * height * width; }       // elements of one
  int64_t patch_size() const { return channels * patch * patch; }  // elements
};

class PatchEmbed : public NetPart {
 public:
  PatchEmbed(int index, Emission& e, const Sharding& at, const ImageShape& image, int64_t width);
  void set_input(const View& v) { input_ = v; }

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>&, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  View last_gradient(bool) const override { return patch_.weight; }
  std::vector<int> backward_reads() const override {
    return e_.input_gradient ? std::vector<int>{index()} : std::vector<int>{};
  }

 private:
  Emission& e_;
  Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const ImageShape image_;
  const int64_t D_;
  Linear patch_;
  View pos_;  // [N, D]
  View input_, patches_;
};

/// Of a prediction that lies in patches, and its gradient.
class PixelLoss {
 public:
  PixelLoss(Emission& e, const Sharding& at, const ImageShape& image)
      : e_(e), b_(e.b), at_(at), image_(image) {}
  void forward(const View& pred, const View& target);
  View backward(const View& pred, const View& target);

 private:
  Emission& e_;
  Builder& b_;
  const Sharding& at_;
  const ImageShape image_;
  View sums_;
};

class PixelHead : public NetPart {
 public:
  PixelHead(int index, Emission& e, const Sharding& at, const ImageShape& image, const BlockShape& before);
  void set_target(const View& v) { target_ = v; }

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  View last_gradient(bool weight) const override { return weight ? head_.weight : norm_.gamma; }

 private:
  Emission& e_;
  Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  PixelLoss loss_;
  const int64_t patch_size_;
  const BlockShape before_;
  Norm norm_;
  Linear head_;
  Flow in_;
  View target_, pred_;
};

/// What a net reads, and what it predicts.
ImageShape image_read(const Images& net, int64_t patch);
ImageShape image_predicted(const Images& net, int64_t patch);
/// Of the ops that look at images: which rows of which patches.
Attrs image_attrs(const ImageShape& image, const Sharding& at);
/// What both ends read, the head being part `last`; what the head reports.
std::vector<BatchTensor> image_batch(const ImageShape& read, const ImageShape& predicted, const Sharding& at,
                                     int last);
std::vector<Metric> image_metrics(const ImageShape& image);

}  // namespace isobar
