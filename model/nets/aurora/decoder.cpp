#include "model/nets/aurora/decoder.h"

#include "model/nets/aurora/fourier.h"
#include "model/nets/declare.h"
#include "model/nets/graph/graph_mlp.h"

namespace isobar::nets::aurora {
namespace {

// Takes `levels` from `first` on of rows [samples, latent levels, patches], patch by patch; and the inverse:
// the place of each row of x, -1 if it was not taken.
std::vector<int32_t> taken(int64_t samples, int64_t latent, int64_t patches, int64_t first, int64_t levels) {
  std::vector<int32_t> from;
  for (int64_t b = 0; b < samples; ++b)
    for (int64_t patch = 0; patch < patches; ++patch)
      for (int64_t i = first; i < first + levels; ++i)
        from.push_back(static_cast<int32_t>((b * latent + i) * patches + patch));
  return from;
}

std::vector<int32_t> places(const std::vector<int32_t>& from, int64_t rows) {
  std::vector<int32_t> to(static_cast<size_t>(rows), -1);
  for (size_t i = 0; i < from.size(); ++i) to[from[i]] = static_cast<int32_t>(i);
  return to;
}

RowOrder::Make from_of(int64_t B, int64_t latent, int64_t L, int64_t first, int64_t levels) {
  return [=] { return taken(B, latent, L, first, levels); };
}
RowOrder::Make to_of(int64_t B, int64_t latent, int64_t L, int64_t first, int64_t levels) {
  return [=] { return places(taken(B, latent, L, first, levels), B * latent * L); };
}

}  // namespace

Decoder::Decoder(int index, Emission& e, const Sharding& at, const AuroraSpec& n)
    : NetPart(index, "head"),
      e_(e),
      b_(e.b),
      patches_(at),
      layers_(e, patches_),
      n_(n),
      B_(at.batch),
      L_(at.tokens),
      D_(2 * n.embed_dim),
      levels_(n.pressure_levels()),
      loss_(e, patches_, image_predicted(n, n.patch_size)),
      perceiver_(e, patches_, "head/level_decoder", "decoder.level_decoder.layers.0",
                 {.width = D_,
                  .heads = n.num_heads,
                  .hidden = n.dec_mlp_ratio * D_,
                  .groups = B_ * L_,
                  .queries = levels_,
                  .keys = n.latent_levels - 1,
                  .eps = n.norm_eps}),
      surface_rows_(e.b, "head.surface_rows", B_ * L_, B_ * L_ * n.latent_levels,
                    from_of(B_, n.latent_levels, L_, 0, 1), to_of(B_, n.latent_levels, L_, 0, 1)),
      upper_rows_(e.b, "head.upper_rows", B_ * L_ * (n.latent_levels - 1), B_ * L_ * n.latent_levels,
                  from_of(B_, n.latent_levels, L_, 1, n.latent_levels - 1),
                  to_of(B_, n.latent_levels, L_, 1, n.latent_levels - 1)) {}

void Decoder::declare(Declare& d) {
  const int64_t p2 = n_.patch_size * n_.patch_size;
  perceiver_.declare(d);
  const auto heads = [&](Linear& l, const char* kind, const std::vector<std::string>& names) {
    std::vector<plan::Param> weights, biases;
    for (const std::string& v : names) {
      const std::string name = std::string("decoder.") + kind + "_heads." + v;
      weights.push_back({name + ".weight", {p2, D_}, plan::Init::normal, kSigma});
      biases.push_back({name + ".bias", {p2}, plan::Init::zero});
    }
    const auto out = static_cast<int64_t>(names.size()) * p2;
    for (plan::Param& w : weights) w.axis = -1;
    for (plan::Param& w : biases) w.axis = -1;
    d.linear(l, D_, out, std::move(weights), std::move(biases));
  };
  heads(surface_, "surf", n_.surf_vars);
  heads(upper_, "atmos", n_.atmos_vars);
  d.linear(level_, "decoder.atmos_levels_embed", D_, D_, -1, true);
}

plan::View Decoder::receive_buffer(size_t in) {
  const plan::InPart here(b_, index());
  return b_.scratch(in == kX ? "head.x" : "head.skip", DType::f32, B_ * L_ * n_.latent_levels * n_.embed_dim);
}

plan::SumAttrs Decoder::rows_of(int64_t rows, int64_t cols) const {
  return {.rows = rows, .cols = cols, .accumulate = e_.accumulates()};
}

// Converts between the rows of a head, [patches(, levels)][variable][points], and those of the prediction,
// [patches][points][field], where a variable's levels are adjacent
void Decoder::place(const std::string& path, bool back, const plan::View& part, const plan::View& pred,
                    bool surface) {
  const int64_t p2 = n_.patch_size * n_.patch_size, C = n_.out_channels, S = n_.surface_fields(),
                V = n_.upper_variables();
  const auto copy = [&](const std::string& which, int64_t fields, int64_t step, int64_t row, int64_t of_part,
                        int64_t of_pred) {
    const std::array<int64_t, 3> in_part = {row, step, 1}, in_pred = {C * p2, 1, C};
    const plan::CopyAttrs a{.run = 1,
                            .extent = {B_ * L_, fields, p2},
                            .from = back ? in_pred : in_part,
                            .to = back ? in_part : in_pred};
    const plan::View here = part.slice(of_part, part.count - of_part),
                     there = pred.slice(of_pred, pred.count - of_pred);
    b_.emit<plan::OpKind::copy>(path + which, a, {back ? there : here}, {back ? here : there});
  };
  if (surface) return copy("", S, p2, S * p2, 0, 0);
  for (int64_t v = 0; v < V; ++v)
    copy("/" + n_.atmos_vars[v], levels_, V * p2, levels_ * V * p2, v * p2, S + v * levels_);
}

std::vector<Flow> Decoder::forward(const std::vector<Flow>& in, const Forward&) {
  const int64_t half = D_ / 2, rows = B_ * L_ * n_.latent_levels, patches = B_ * L_,
                upper = patches * levels_;
  if (!code_)
    code_ = numbers(b_, "head.levels", e_.act, levels_ * D_, [D = D_, levels = n_.levels] {
      std::vector<float> code(levels.size() * static_cast<size_t>(D));
      for (size_t i = 0; i < levels.size(); ++i)
        fourier_code(static_cast<double>(levels[i]), kLevels, D, code.data() + static_cast<int64_t>(i) * D);
      return code;
    });
  const plan::View z = b_.scratch("head.z", e_.act, rows * D_);
  for (const size_t i : {kX, kSkip}) {
    const std::string path = i == kX ? "head/x" : "head/skip";
    const plan::View part = as_act(e_, path + "/cast", path + ".act", in[i].x, false);
    b_.emit<plan::OpKind::copy>(path + "/beside",
                                {.run = half, .extent = {rows, 1, 1}, .from = {half, 0, 0}, .to = {D_, 0, 0}},
                                {part}, {z.slice(i == kX ? 0 : half, z.count - half)});
  }
  x_surface_ = b_.saved("head.surface.x", e_.act, patches * D_);
  surface_rows_.gather("head/surface/rows", z, x_surface_, D_);
  x_upper_ = b_.saved("head.upper.x", e_.act, patches * (n_.latent_levels - 1) * D_);
  upper_rows_.gather("head/upper/rows", z, x_upper_, D_);
  const plan::View levels = b_.saved_or_scratch("head.level", DType::f32, levels_ * D_, e_.act == DType::f32);
  layers_.linear_forward("head/atmos_levels/forward", level_, code_, levels, levels_, level_.bias);
  const plan::View y = b_.saved_or_scratch("head.y", DType::f32, upper * D_, e_.act == DType::f32);
  perceiver_.forward(levels, x_upper_, y);
  y_ = as_act(e_, "head/upper/cast", "head.y.act", y, true);
  pred_ = b_.saved("pred", e_.act, patches * n_.out_channels * n_.patch_size * n_.patch_size);
  const plan::View of_surface = b_.scratch("head.surface.pred", e_.act, patches * surface_.out);
  layers_.linear_forward("head/surface/forward", surface_, x_surface_, of_surface, patches, surface_.bias);
  place("head/surface/place", false, of_surface, pred_, true);
  const plan::View of_upper = b_.scratch("head.upper.pred", e_.act, upper * upper_.out);
  layers_.linear_forward("head/upper/forward", upper_, y_, of_upper, upper, upper_.bias);
  place("head/upper/place", false, of_upper, pred_, false);
  if (e_.roll.counts()) loss_.forward(pred_, target_, mask_);
  return {};
}

void Decoder::backward(const std::vector<Gradient>&, std::vector<Gradient>& in) {
  const int64_t half = D_ / 2, rows = B_ * L_ * n_.latent_levels, patches = B_ * L_,
                upper = patches * levels_;
  const plan::View dpred = loss_.backward(pred_, target_, mask_);
  emit_next_gradient(e_, next_gradient_, dpred);
  const plan::View dz = b_.scratch("head.dz", e_.act, rows * D_);

  const plan::View dupper = e_.operand("head.upper.dpred", e_.act, upper * upper_.out);
  place("head/upper/place/backward", true, dupper, dpred, false);
  b_.emit<plan::OpKind::column_sum>("head/upper/backward_bias", rows_of(upper, upper_.out), {dupper},
                                    {b_.grad(upper_.bias)});
  const plan::View dy = b_.scratch("head.dy", DType::f32, upper * D_);
  layers_.linear_backward_input("head/upper", upper_, dupper, dy, upper);
  layers_.linear_backward_weight("head/upper", upper_, y_, dupper, upper);
  plan::View dlevels = e_.operand("head.dlevels", DType::f32, levels_ * D_);
  const plan::View dcontext = b_.scratch("head.upper.dx", e_.act, x_upper_.count);
  perceiver_.backward(dy, dlevels, dcontext);
  dlevels = as_act(e_, "head/atmos_levels/backward_cast", "head.dlevels.act", dlevels, e_.split);
  b_.emit<plan::OpKind::column_sum>("head/atmos_levels/backward_bias", rows_of(levels_, D_), {dlevels},
                                    {b_.grad(level_.bias)});
  layers_.linear_backward_weight("head/atmos_levels", level_, code_, dlevels, levels_);

  const plan::View dsurface = e_.operand("head.surface.dpred", e_.act, patches * surface_.out);
  place("head/surface/place/backward", true, dsurface, dpred, true);
  b_.emit<plan::OpKind::column_sum>("head/surface/backward_bias", rows_of(patches, surface_.out), {dsurface},
                                    {b_.grad(surface_.bias)});
  const plan::View dx = b_.scratch("head.surface.dx", e_.act, x_surface_.count);
  layers_.linear_backward_input("head/surface", surface_, dsurface, dx, patches);
  layers_.linear_backward_weight("head/surface", surface_, x_surface_, dsurface, patches);

  // Each row of x went to exactly one of the two.
  surface_rows_.back("head/surface/rows/backward", {}, dx, dz, D_);
  upper_rows_.back("head/upper/rows/backward", dz, dcontext, dz, D_);
  for (const size_t i : {kX, kSkip}) {
    const std::string path = i == kX ? "head/x" : "head/skip";
    const plan::View part = e_.act == DType::f32 ? in[i].dx : b_.scratch(path + ".dact", e_.act, rows * half);
    b_.emit<plan::OpKind::copy>(path + "/backward",
                                {.run = half, .extent = {rows, 1, 1}, .from = {D_, 0, 0}, .to = {half, 0, 0}},
                                {dz.slice(i == kX ? 0 : half, dz.count - half)}, {part});
    if (e_.act != DType::f32)
      b_.emit<plan::OpKind::cast>(path + "/backward_cast", {.count = part.count}, {part}, {in[i].dx});
  }
}

}  // namespace isobar::nets::aurora
