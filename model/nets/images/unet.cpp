// A ViT of two resolutions (UnetSpec), the shape of Swin's U-Nets (Cao 2021) and of Aurora's: unequal parts
// and a skip connection.
//
//   embed   image -> x [B,H,W,D]
//   block   × encoder_depth
//   merge   x -> LayerNorm -> four neighbours side by side [B,H/2,W/2,4D] -> linear -> [B,H/2,W/2,2D];
//           x is also split's skip connection
//   block   × bottleneck_depth, of twice the width
//   split   -> LayerNorm -> linear [B,H/2,W/2,4D] -> four neighbours [B,H,W,D], added to the skip connection
//   block   × decoder_depth
//   head    -> image
#include "model/nets/declare.h"
#include "model/nets/images/pixels.h"
#include "model/nets/kinds.h"
#include "model/nets/transformer/block.h"

namespace isobar::nets {
namespace {

struct Grid {  // of patches, fine
  int64_t batch, height, width, D;
};

// Gathers 2x2 neighbours of the fine grid [B,H,W,D] side by side on the coarse one [B,H/2,W/2,4D], or back;
// two neighbouring columns are contiguous on both.
void emit_neighbours(plan::Builder& b, const std::string& path, const Grid& g, const plan::View& fine,
                     const plan::View& coarse, bool to_coarse) {
  const int64_t rows = g.batch * g.height / 2, columns = g.width / 2, n = 2 * g.D;
  for (int64_t row = 0; row < 2; ++row) {
    const int64_t at_fine = row * g.width * g.D, at_coarse = row * n;
    const std::array<int64_t, 3> of_fine = {2 * g.width * g.D, n, 0}, of_coarse = {columns * 2 * n, 2 * n, 0};
    const plan::CopyAttrs a{.run = n,
                            .extent = {rows, columns, 1},
                            .from = to_coarse ? of_fine : of_coarse,
                            .to = to_coarse ? of_coarse : of_fine};
    const plan::View f = fine.slice(at_fine, fine.count - at_fine),
                     c = coarse.slice(at_coarse, coarse.count - at_coarse);
    b.emit<plan::OpKind::copy>(path + std::to_string(row), a, {to_coarse ? f : c}, {to_coarse ? c : f});
  }
}

class Merge : public NetPart {
 public:
  Merge(int index, Emission& e, const Sharding& fine, const Sharding& coarse, const Grid& g, double eps)
      : NetPart(index, "merge"),
        e_(e),
        b_(e.b),
        at_(fine),
        norms_(e, fine),
        linears_(e, coarse),
        rows_(coarse.rows),
        g_(g),
        eps_(eps) {}

  void declare(Declare& d) override {
    d.norm(norm_, "merge.norm", g_.D, eps_, true);
    d.linear(linear_, "merge.reduction", 4 * g_.D, 2 * g_.D, -1, false);
  }
  plan::View receive_buffer(size_t) override {
    const plan::InPart here(b_, index());
    return b_.saved("merge/norm.x", DType::f32, at_.rows * g_.D);
  }
  std::vector<Flow> kept_inputs() const override { return {{.x = norm_.x}}; }
  int shares_gradient_with(size_t in) const override { return in == 0 ? 1 : -1; }  // of the skip connection
  plan::View last_gradient(bool weight) const override { return weight ? linear_.weight : norm_.gamma; }

  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    const bool keep = how.keep == Keep::all;
    if (!how.recompute) in_ = in[0];
    // split reads it, even if this part is recomputed.
    norm_.x =
        in[0].y ? b_.saved_or_scratch("merge/norm.x", DType::f32, at_.rows * g_.D, !how.recompute) : in[0].x;
    norms_.norm_forward("merge/norm", how.pass(), norm_, in[0], keep);
    side_ = b_.saved_or_scratch("merge.side", e_.act, rows_ * 4 * g_.D, keep);
    emit_neighbours(b_, std::string("merge/neighbours") + how.pass(), g_, norm_.h, side_, true);
    if (!how.result) return {{}, {.x = norm_.x}};
    const plan::View x =
        how.recompute ? b_.scratch("merge.x", DType::f32, rows_ * 2 * g_.D) : how.output_place(0);
    const bool direct = e_.act == DType::f32;
    const plan::View y = direct ? x : b_.scratch("merge.y", e_.act, x.count);
    linears_.linear_forward(std::string("merge/reduction") + how.pass(), linear_, side_, y, rows_,
                            plan::View{});
    if (!direct)
      b_.emit<plan::OpKind::cast>(std::string("merge/cast") + how.pass(), {.count = x.count}, {y}, {x});
    return {{.x = x}, {.x = norm_.x}};
  }

  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const plan::View dy = e_.for_linear("merge/reduction/backward_cast", "merge.dy", out[0].dx);
    const plan::View dside = b_.scratch("merge.dside", e_.act, rows_ * 4 * g_.D);
    linears_.linear_backward_input("merge/reduction", linear_, dy, dside, rows_);
    linears_.linear_backward_weight("merge/reduction", linear_, side_, dy, rows_);
    const plan::View dh = b_.scratch("merge.dh", e_.act, at_.rows * g_.D);
    emit_neighbours(b_, "merge/neighbours/backward", g_, dh, dside, false);
    in[0].dy = norms_.norm_backward("merge/norm", norm_, dh, in[0].dx, false, in_);
  }

 private:
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers norms_, linears_;
  const int64_t rows_;  // coarse
  const Grid g_;
  const double eps_;
  Flow in_;
  Norm norm_;
  Linear linear_;
  plan::View side_;  // [coarse rows, 4D] act
};

class Split : public NetPart {
 public:
  Split(int index, Emission& e, const Sharding& fine, const Sharding& coarse, const Grid& g, double eps)
      : NetPart(index, "split"),
        e_(e),
        b_(e.b),
        fine_rows_(fine.rows),
        rows_(coarse.rows),
        layers_(e, coarse),
        g_(g),
        eps_(eps) {}

  void declare(Declare& d) override {
    d.norm(norm_, "split.norm", 2 * g_.D, eps_, true);
    d.linear(linear_, "split.expansion", 2 * g_.D, 4 * g_.D, -1, false);
  }
  plan::View receive_buffer(size_t in) override {
    const plan::InPart here(b_, index());
    return in == kSkip ? b_.saved("split/skip", DType::f32, fine_rows_ * g_.D)
                       : b_.saved("split/norm.x", DType::f32, rows_ * 2 * g_.D);
  }
  std::vector<Flow> kept_inputs() const override { return {{.x = skip_}, {.x = norm_.x}}; }
  // The gradient of the sum is that of the skip connection.
  int shares_gradient_with(size_t in) const override { return in == kSkip ? 0 : -1; }
  plan::View last_gradient(bool weight) const override { return weight ? linear_.weight : norm_.gamma; }

  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    const bool keep = how.keep == Keep::all;
    const Flow& x = in[kCoarse];
    if (!how.recompute) in_ = x;
    skip_ = in[kSkip].x;
    norm_.x =
        x.y ? b_.saved_or_scratch("split/norm.x", DType::f32, rows_ * 2 * g_.D, how.keep != Keep::nothing)
            : x.x;
    layers_.norm_forward("split/norm", how.pass(), norm_, x, keep);
    if (!how.result) return {{}};
    const plan::View side = b_.scratch("split.side", e_.act, rows_ * 4 * g_.D);
    layers_.linear_forward(std::string("split/expansion") + how.pass(), linear_, norm_.h, side, rows_,
                           plan::View{});
    const plan::View y = b_.scratch("split.y", e_.act, fine_rows_ * g_.D);
    emit_neighbours(b_, std::string("split/neighbours") + how.pass(), g_, y, side, false);
    return {{.x = skip_, .y = y, .linear = "split/expansion"}};
  }

  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const plan::View dside = e_.operand("split.dside", e_.act, rows_ * 4 * g_.D);
    emit_neighbours(b_, "split/neighbours/backward", g_, out[0].dy, dside, true);
    const plan::View dh = b_.scratch("split.dh", e_.act, rows_ * 2 * g_.D);
    layers_.linear_backward_input("split/expansion", linear_, dside, dh, rows_);
    layers_.linear_backward_weight("split/expansion", linear_, norm_.h, dside, rows_);
    in[kCoarse].dy = layers_.norm_backward("split/norm", norm_, dh, in[kCoarse].dx, true, in_);
  }

 private:
  static constexpr size_t kSkip = 0, kCoarse = 1;
  Emission& e_;
  plan::Builder& b_;
  const int64_t fine_rows_, rows_;
  const Layers layers_;
  const Grid g_;
  const double eps_;
  Flow in_;
  Norm norm_;
  Linear linear_;
  plan::View skip_;
};

class Unet : public ImageNet {
 public:
  Unet(const UnetSpec& n, Emission& e, const Sharding& fine)
      : fine_(fine), coarse_(fine.with_tokens(n.tokens() / 4)) {
    const BlockShape shape{.width = n.embed_dim,
                           .heads = n.num_heads,
                           .kv_heads = n.num_heads,
                           .head_dim = n.embed_dim / n.num_heads,
                           .hidden = n.hidden(),
                           .tokens = n.tokens(),
                           .activation = activation_of(n.gelu),
                           .eps = n.norm_eps};
    BlockShape wide = shape;
    wide.width *= 2, wide.heads *= 2, wide.kv_heads *= 2, wide.hidden *= 2, wide.tokens /= 4;
    const Grid grid{fine.batch, n.img_height / n.patch_size, n.img_width / n.patch_size, n.embed_dim};
    const ImageShape read = image_read(n, n.patch_size), predicted = image_predicted(n, n.patch_size);
    PatchEmbed* const embed = add_part(std::make_unique<PatchEmbed>(0, e, fine_, read, shape.width));
    add_blocks(n.encoder_depth, "encoder", e, fine_, shape);
    const int merge = add_part(std::make_unique<Merge>(here(), e, fine_, coarse_, grid, n.norm_eps))->index();
    add_blocks(n.bottleneck_depth, "bottleneck", e, coarse_, wide);
    const int split = add_part(std::make_unique<Split>(here(), e, fine_, coarse_, grid, n.norm_eps))->index();
    add_blocks(n.decoder_depth, "decoder", e, fine_, shape);
    PixelHead* const head = add_part(std::make_unique<PixelHead>(here(), e, fine_, predicted, shape));
    for (int32_t to = 1; to < here(); ++to) {
      if (to == split) streams_.push_back({"skip", merge, split, shape.stream, fine.rows * shape.width});
      const bool narrow = to <= merge || to > split;
      streams_.push_back({narrow ? "x" : "x2", to - 1, to, shape.stream,
                          narrow ? fine.rows * shape.width : coarse_.rows * wide.width});
    }
    end(e, fine_, read, predicted, embed, head);
  }

 private:
  void add_blocks(int64_t depth, const std::string& where, Emission& e, const Sharding& at,
                  const BlockShape& shape) {
    for (int64_t i = 0; i < depth; ++i, ++blocks_)
      add_part(std::make_unique<Block>(here(), block_path(blocks_), where + "." + std::to_string(i), e, at,
                                       shape));
  }

  const Sharding& fine_;
  const Sharding coarse_;
  int64_t blocks_ = 0;
};

}  // namespace

std::unique_ptr<Net> make_net(const UnetSpec& n, Emission& e, const Sharding& at) {
  return std::make_unique<Unet>(n, e, at);
}

std::vector<plan::Part> parts_of(const UnetSpec& n) {
  std::vector<plan::Part> parts{{"embed", "embed", 0}};
  const auto here = [&] { return static_cast<int32_t>(parts.size()); };
  int64_t block = 0;
  const auto add_blocks = [&](int64_t depth, int32_t alike) {
    for (int64_t i = 0; i < depth; ++i) parts.push_back({"block", block_path(block++), alike});
  };
  add_blocks(n.encoder_depth, 1);
  parts.push_back({"merge", "merge", here()});
  add_blocks(n.bottleneck_depth, here());
  parts.push_back({"split", "split", here()});
  add_blocks(n.decoder_depth, 1);
  parts.push_back({"head", "head", here()});
  return parts;
}

NetLimits limits_of(const UnetSpec& n) {
  return {
      .tp = {{"net.num_heads", n.num_heads}, {"the MLP's width", n.hidden()}},
      .kv_heads = n.num_heads,
      .tokens = n.tokens() / 4,
      .inner_parts = n.blocks() + 2,
      .no_cp = "cannot cut a unet: it merges neighbouring tokens, which would lie on different ranks",
      .no_sequence = "cannot cut a unet: it merges neighbouring tokens, which would lie on different ranks"};
}

}  // namespace isobar::nets
