#include "model/nets/windows/resample.h"

#include <string>

#include "model/nets/declare.h"
#include "model/nets/graph/graph_mlp.h"
#include "model/nets/net.h"
#include "model/nets/windows/rows.h"

namespace isobar::nets {
namespace {

class PatchMerging : public NetPart {
 public:
  /// `at`: of the coarse grid. `order`: inside, four rows for each coarse one; outside, the fine grid.
  PatchMerging(int index, std::string path, std::string name, Emission& e, const Sharding& at,
               RowOrder& order, int64_t width, int skips, double eps)
      : NetPart(index, std::move(path)),
        name_(std::move(name)),
        e_(e),
        b_(e.b),
        coarse_(at),
        layers_(e, coarse_),
        order_(order),
        D_(width),
        rows_(order.inside / 4),
        skips_(skips),
        eps_(eps) {}
  void declare(Declare& d) override {
    d.norm(norm_, name_ + ".norm", 4 * D_, eps_, true);
    d.linear(linear_, name_ + ".reduction", 4 * D_, 2 * D_, -1, false);
  }
  plan::View receive_buffer(size_t) override {
    const plan::InPart here(b_, index());
    return b_.saved_or_scratch(path() + ".x", DType::f32, order_.outside * D_,
                               skips_ > 0 || e_.spec.policy.recompute == Recompute::full);
  }
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    const bool keep = how.keep == Keep::all;
    const plan::View x = whole(in[0], how);
    norm_.x = b_.saved_or_scratch(path() + ".side", DType::f32, rows_ * 4 * D_, keep);
    order_.gather(path() + "/neighbours" + how.pass(), x, norm_.x, D_);
    layers_.norm_forward(path() + "/norm", how.pass(), norm_, {.x = norm_.x}, keep);
    std::vector<Flow> out(static_cast<size_t>(1 + skips_), {.x = x_});
    out[0] = {};
    if (!how.result) return out;
    out[0].x = how.recompute ? b_.scratch(path() + ".y", DType::f32, rows_ * 2 * D_) : how.output_place(0);
    layers_.linear_forward(path() + "/reduction" + how.pass(), linear_, norm_.h, out[0].x, rows_,
                           plan::View{});
    return out;
  }
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const plan::View dy = e_.for_linear(path() + "/reduction/backward_cast", path() + ".dy", out[0].dx);
    const plan::View dh = b_.scratch(path() + ".dh", e_.act, rows_ * 4 * D_);
    layers_.linear_backward_input(path() + "/reduction", linear_, dy, dh, rows_);
    layers_.linear_backward_weight(path() + "/reduction", linear_, norm_.h, dy, rows_);
    const plan::View dside = b_.scratch(path() + ".dside", DType::f32, rows_ * 4 * D_);
    layers_.norm_backward(path() + "/norm", norm_, dh, dside, true, {.x = norm_.x});
    order_.back(path() + "/neighbours/backward", skips_ > 0 ? in[0].dx : plan::View{}, dside, in[0].dx, D_);
    if (skips_ > 1)
      b_.emit<plan::OpKind::residual_add>(path() + "/skip/backward", {.rows = 1, .cols = in[0].dx.count},
                                          {in[0].dx, out[2].dx}, {in[0].dx});
    in[0].dy = layers_.add_backward(path() + "/add", in_, in[0].dx);
  }
  std::vector<Flow> kept_inputs() const override { return {{.x = x_}}; }
  int shares_gradient_with(size_t) const override {
    return skips_ > 0 ? 1 : -1;
  }  // of the first skip connection
  plan::View last_gradient(bool weight) const override { return weight ? linear_.weight : norm_.gamma; }

 private:
  // The input as a stream without a y. A recomputation has another one than the skip connections.
  plan::View whole(const Flow& in, const Forward& how) {
    if (!how.recompute) in_ = in;
    if (!in.y) {
      if (!how.recompute) x_ = kept(in.x, how.keep);
      return in.x;
    }
    const bool saves = !how.recompute && (skips_ > 0 || how.keep != Keep::nothing);
    const plan::View x = b_.saved_or_scratch(path() + ".x", DType::f32, order_.outside * D_, saves);
    layers_.add(path() + "/add" + how.pass(), in, x);
    if (!how.recompute) x_ = x;
    return x;
  }
  // A skip connection outlives this routine, even if the part itself keeps nothing.
  plan::View kept(const plan::View& x, Keep keep) {
    if (skips_ == 0 || keep != Keep::nothing) return x;
    const plan::View copy = b_.saved(path() + ".skip", DType::f32, x.count);
    b_.emit<plan::OpKind::copy>(path() + "/skip/forward", {.run = x.count}, {x}, {copy});
    return copy;
  }
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
                 RowOrder& order, int64_t width, bool skip, double eps)
      : NetPart(index, std::move(path)),
        name_(std::move(name)),
        e_(e),
        b_(e.b),
        fine_(at),
        layers_(e, fine_),
        order_(order),
        D_(width),
        rows_(order.inside / 4),
        fine_rows_(order.outside),
        skip_(skip),
        eps_(eps) {}
  void declare(Declare& d) override {
    d.linear(first_, name_ + ".lin1", D_, 2 * D_, -1, false);
    d.norm(norm_, name_ + ".norm", D_ / 2, eps_, true);
    d.linear(second_, name_ + ".lin2", D_ / 2, D_ / 2, -1, false);
  }
  plan::View receive_buffer(size_t in) override {
    const plan::InPart here(b_, index());
    const bool again = e_.spec.policy.recompute == Recompute::full;
    return in == coarse()
               ? b_.saved_or_scratch(path() + ".x", DType::f32, rows_ * D_, e_.act == DType::f32 || again)
               : b_.saved_or_scratch(path() + ".skip", DType::f32, fine_rows_ * D_ / 2, again);
  }
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    const bool keep = how.keep == Keep::all;
    const std::string pass = how.pass();
    std::vector<Flow> whole = in;
    if (const Flow& f = in[coarse()]; f.y) {
      const bool saves = !how.recompute && (how.keep == Keep::input || (keep && e_.act == DType::f32));
      whole[coarse()] = {.x = b_.saved_or_scratch(path() + ".x", DType::f32, rows_ * D_, saves)};
      layers_.add(path() + "/add" + pass, f, whole[coarse()].x);
    }
    if (!how.recompute) in_ = whole, coarse_in_ = in[coarse()];
    x_ = as_act(e_, path() + "/cast" + pass, path() + ".x.act", whole[coarse()].x, keep);
    const int64_t width = D_ / 2, fine = fine_rows_ * width;
    const plan::View side = b_.scratch(path() + ".side", DType::f32, rows_ * 2 * D_);
    layers_.linear_forward(path() + "/lin1" + pass, first_, x_, side, rows_, plan::View{});
    norm_.x = b_.saved_or_scratch(path() + ".norm.x", DType::f32, fine, keep);
    order_.back(path() + "/neighbours" + pass, {}, side, norm_.x, width);
    layers_.norm_forward(path() + "/norm", pass, norm_, {.x = norm_.x}, keep);
    if (!how.result) return {{}};
    const plan::View x = how.recompute ? b_.scratch(path() + ".out", DType::f32, fine) : how.output_place(0);
    const plan::View y = skip_ ? b_.scratch(path() + ".y", e_.act, fine) : x;
    layers_.linear_forward(path() + "/lin2" + pass, second_, norm_.h, y, fine_rows_, plan::View{});
    if (skip_)
      b_.emit<plan::OpKind::residual_add>(path() + "/skip" + pass, {.rows = 1, .cols = fine}, {in[0].x, y},
                                          {x});
    return {{.x = x}};
  }
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const int64_t width = D_ / 2, fine = fine_rows_ * width;
    const plan::View dy = e_.for_linear(path() + "/lin2/backward_cast", path() + ".dy", out[0].dx);
    const plan::View dh = b_.scratch(path() + ".dh", e_.act, fine);
    layers_.linear_backward_input(path() + "/lin2", second_, dy, dh, fine_rows_);
    layers_.linear_backward_weight(path() + "/lin2", second_, norm_.h, dy, fine_rows_);
    const plan::View dnorm = b_.scratch(path() + ".dnorm", DType::f32, fine);
    layers_.norm_backward(path() + "/norm", norm_, dh, dnorm, true, {.x = norm_.x});
    const bool direct = e_.act == DType::f32;
    const plan::View dside32 = direct ? e_.operand(path() + ".dside", e_.act, rows_ * 2 * D_)
                                      : b_.scratch(path() + ".dside32", DType::f32, rows_ * 2 * D_);
    order_.gather(path() + "/neighbours/backward", dnorm, dside32, width);
    const plan::View dside = direct ? dside32 : e_.operand(path() + ".dside", e_.act, rows_ * 2 * D_);
    if (!direct)
      b_.emit<plan::OpKind::cast>(path() + "/lin1/backward_cast", {.count = dside.count}, {dside32}, {dside});
    layers_.linear_backward_input(path() + "/lin1", first_, dside, in[coarse()].dx, rows_);
    layers_.linear_backward_weight(path() + "/lin1", first_, x_, dside, rows_);
    in[coarse()].dy = layers_.add_backward(path() + "/add", coarse_in_, in[coarse()].dx);
  }
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

}  // namespace

std::unique_ptr<NetPart> patch_merging(int index, std::string path, std::string name, Emission& e,
                                       const Sharding& at, RowOrder& order, int64_t width, int skips,
                                       double eps) {
  return std::make_unique<PatchMerging>(index, std::move(path), std::move(name), e, at, order, width, skips,
                                        eps);
}

std::unique_ptr<NetPart> patch_splitting(int index, std::string path, std::string name, Emission& e,
                                         const Sharding& at, RowOrder& order, int64_t width, bool skip,
                                         double eps) {
  return std::make_unique<PatchSplitting>(index, std::move(path), std::move(name), e, at, order, width, skip,
                                          eps);
}

}  // namespace isobar::nets
