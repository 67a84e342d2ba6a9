// The two ends of the NERSC ViT, image to image: patches and learned positions; head without bias and a loss
// per pixel of which each rank sums its own rows.
//
//   first stage   image [B,C,H,W] -> patches [rows, C p p] -> y [rows, D], positions as the residual
//   last stage    h [rows, D] -> prediction [rows, C p p] -> loss and RMSE of each channel
#pragma once
#include "model/nets/block.h"
#include "model/nets/ends.h"

namespace isobar {

class PixelEnds : public Ends {
 public:
  PixelEnds(Builder& b, const RunSpec& spec, const Sharding& at, BlockEmitter& block, DType act);

  void declare_first(const Declare& declare) override;
  void declare_last(const Declare& declare, bool with_first) override;
  int64_t metrics() const override { return 1 + n_.out_channels; }
  void emit_fetch(const Stage& stage) override;
  Stream emit_first(const Block& next) override;
  void emit_last(const View& h) override;
  View emit_backward_last(const View& h) override;
  void emit_backward_first(const View& dx, const View& dy, bool accumulate) override;
  bool first_is_linear() const override { return true; }
  View first_bias() const override { return patch_.bias; }
  View first_parameter() const override { return patch_.weight; }
  bool last_reads_first() const override { return false; }

 private:
  Attrs image() const;

  Builder& b_;
  const RunSpec& s_;
  const NetSpec& n_;
  const Sharding& at_;
  BlockEmitter& block_;
  const DType act_;
  const int64_t D_, P_;  // width; channels * patch * patch
  Linear patch_, head_;
  View pos_;  // [N, D]
  View input_, target_, patches_, pred_, sums_;
};

}  // namespace isobar
