// Between the resolutions of a Swin U-Net (Liu 2021; Bodnar 2024). A stream whose y waits is added first.
//
//   PatchMerging   x [B,C,H,W,D] -> four neighbours side by side, zeros where a size is odd [.., 4D] ->
//   LayerNorm ->
//           linear -> [B,C,H/2,W/2,2D]; its input goes on as up to two skip connections
//   PatchSplitting   x [.., D] -> linear -> four neighbours [B,C,2H,2W,D/2], cropped -> LayerNorm -> linear,
//   added to
//           the skip connection where there is one
#pragma once
#include <string>

#include "model/nets/net.h"
#include "model/nets/windows/rows.h"

namespace isobar::nets {

class PatchMerging : public NetPart {
 public:
  /// `at`: of the coarse grid. `order`: inside, four rows for each coarse one; outside, the fine grid.
  PatchMerging(int index, std::string path, std::string name, Emission& e, const Sharding& at,
               RowOrder& order, int64_t width, int skips, double eps);
  void declare(Declare& d) override;
  plan::View receive_buffer(size_t) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  std::vector<Flow> kept_inputs() const override { return {{.x = x_}}; }
  int shares_gradient_with(size_t) const override {
    return skips_ > 0 ? 1 : -1;
  }  // of the first skip connection
  plan::View last_gradient(bool weight) const override { return weight ? linear_.weight : norm_.gamma; }

 private:
  plan::View whole(const Flow& in, const Forward& how);
  plan::View kept(const plan::View& x, Keep keep);
  const std::string name_;
  Emission& e_;
  plan::Builder& b_;
  const Sharding coarse_;
  const Layers layers_;
  RowOrder& order_;
  const int64_t D_, rows_;  // rows: coarse
  const int skips_;
  const double eps_;
  Norm norm_;
  Linear linear_;
  Flow in_;
  plan::View x_;
};

class PatchSplitting : public NetPart {
 public:
  /// `at`: of the fine grid. `order`: as PatchMerging's, of the finer grid. `width`: of the input. A skip
  /// connection, if any, is the first input.
  PatchSplitting(int index, std::string path, std::string name, Emission& e, const Sharding& at,
                 RowOrder& order, int64_t width, bool skip, double eps);
  void declare(Declare& d) override;
  plan::View receive_buffer(size_t in) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  std::vector<Flow> kept_inputs() const override { return in_; }
  int shares_gradient_with(size_t in) const override { return skip_ && in == 0 ? 0 : -1; }
  plan::View last_gradient(bool weight) const override { return weight ? first_.weight : norm_.gamma; }

 private:
  size_t coarse() const { return skip_ ? 1 : 0; }
  const std::string name_;
  Emission& e_;
  plan::Builder& b_;
  const Sharding fine_;
  const Layers layers_;
  RowOrder& order_;
  const int64_t D_, rows_, fine_rows_;
  const bool skip_;
  const double eps_;
  Norm norm_;
  Linear first_, second_;
  Flow coarse_in_;
  std::vector<Flow> in_;  // whole
  plan::View x_;
};

}  // namespace isobar::nets
