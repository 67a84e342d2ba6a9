#include "model/nets/aurora/encoder.h"

#include <cmath>

#include "model/nets/aurora/fourier.h"
#include "model/nets/declare.h"
#include "model/nets/graph/graph_mlp.h"

namespace isobar::nets::aurora {
namespace {

// Transposes upper-air rows [samples, levels, patches] to [samples, patches, levels]
std::vector<int32_t> transposed(int64_t samples, int64_t outer, int64_t inner) {
  std::vector<int32_t> from;
  from.reserve(static_cast<size_t>(samples * outer * inner));
  for (int64_t b = 0; b < samples; ++b)
    for (int64_t i = 0; i < inner; ++i)
      for (int64_t o = 0; o < outer; ++o) from.push_back(static_cast<int32_t>((b * outer + o) * inner + i));
  return from;
}

// Maps x's rows [samples, latent levels, patches] to the list of the surface's [samples, patches] followed by
// upper air's [samples, patches, latent levels - 1]; and back
std::vector<int32_t> stacked(int64_t samples, int64_t latent, int64_t patches) {
  std::vector<int32_t> out;
  for (int64_t b = 0; b < samples; ++b)
    for (int64_t level = 0; level < latent; ++level)
      for (int64_t patch = 0; patch < patches; ++patch) {
        const int64_t of = b * patches + patch;
        out.push_back(
            static_cast<int32_t>(level == 0 ? of : samples * patches + of * (latent - 1) + level - 1));
      }
  return out;
}

std::vector<int32_t> inverse(const std::vector<int32_t>& from) {
  std::vector<int32_t> to(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[from[i]] = static_cast<int32_t>(i);
  return to;
}

std::vector<int32_t> repeated(int64_t rows, int64_t period) {
  std::vector<int32_t> out(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) out[i] = static_cast<int32_t>(i % period);
  return out;
}

std::vector<int32_t> runs(int64_t rows, int64_t length) {
  std::vector<int32_t> out(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) out[i] = static_cast<int32_t>(i / length);
  return out;
}

}  // namespace

Encoder::Encoder(Emission& e, const Sharding& at, const AuroraSpec& n)
    : NetPart(0, "embed"),
      e_(e),
      b_(e.b),
      at_(at),
      layers_(e, at),
      n_(n),
      B_(at.batch),
      L_(at.tokens),
      points_(at.tokens * n.patch_size * n.patch_size),
      first_(at.token0 * n.patch_size * n.patch_size),
      D_(n.embed_dim),
      levels_(n.pressure_levels()),
      perceiver_(e, at, "embed/level_agg", "encoder.level_agg.layers.0",
                 {.width = D_,
                  .heads = n.num_heads,
                  .hidden = n.mlp_ratio * D_,
                  .groups = B_ * L_,
                  .queries = n.latent_levels - 1,
                  .keys = levels_,
                  .eps = n.norm_eps}),
      by_patch_(
          e.b, "embed.by_patch", B_ * L_ * levels_, B_ * L_ * levels_,
          [=, B = B_, L = L_, C = levels_] { return transposed(B, C, L); },
          [=, B = B_, L = L_, C = levels_] { return inverse(transposed(B, C, L)); }),
      by_level_(
          e.b, "embed.by_level", B_ * L_ * n.latent_levels, B_ * L_ * n.latent_levels,
          [B = B_, L = L_, C = n.latent_levels] { return stacked(B, C, L); },
          [B = B_, L = L_, C = n.latent_levels] { return inverse(stacked(B, C, L)); }) {}

// ---- parameters ----

void Encoder::declare(Declare& d) {
  const int64_t p2 = n_.patch_size * n_.patch_size, T = n_.history;
  const float fan = 1.0f / std::sqrt(static_cast<float>(T * p2));
  const auto embedding = [&](Linear& l, const std::string& name, int64_t variables) {
    l.in = variables * T * p2, l.out = D_;
    d.tensor(
        l.weight, true,
        {{name + ".weight", {D_, variables, T, n_.patch_size, n_.patch_size}, plan::Init::uniform, fan}});
    d.tensor(l.bias, false, {{name + ".bias", {D_}, plan::Init::uniform, fan}});
  };
  embedding(surface_, "encoder.surf_token_embeds", n_.surface_fields() + n_.static_fields());
  embedding(upper_, "encoder.atmos_token_embeds", n_.upper_variables());
  d.tensor(level_code_, false, {{"encoder.surf_level_encoding", {D_}, plan::Init::normal, kSigma}});
  d.linear(fc1_, "encoder.surf_mlp.net.0", D_, n_.mlp_ratio * D_, -1, true);
  d.linear(fc2_, "encoder.surf_mlp.net.2", n_.mlp_ratio * D_, D_, -1, true);
  d.tensor(norm_.gamma, false, {{"encoder.surf_norm.weight", {D_}, plan::Init::one}});
  d.tensor(norm_.beta, false, {{"encoder.surf_norm.bias", {D_}, plan::Init::zero}});
  d.tensor(latents_, false,
           {{"encoder.atmos_latents", {n_.latent_levels - 1, D_}, plan::Init::normal, kSigma}});
  perceiver_.declare(d);
  for (Codes* c : {&position_, &area_, &lead_, &time_code_, &level_})
    d.linear(c->linear, std::string("encoder.") + c->name + "_embed", D_, D_, -1, true);
  d.linear(time1_, "backbone.time_mlp.0", D_, D_, -1, true);
  d.linear(time2_, "backbone.time_mlp.2", D_, D_, -1, true);
}

void Encoder::declare_codes() {
  if (position_.code) return;
  const PatchGrid grid{n_.north,
                       n_.west,
                       n_.spacing,
                       L_ * n_.patch_size / n_.img_width,
                       n_.img_width / n_.patch_size,
                       n_.patch_size,
                       at_.token0 * n_.patch_size / n_.img_width};
  const int64_t D = D_;
  position_.code = numbers(b_, "embed.positions", e_.act, L_ * D, [=] { return grid.positions(D); });
  area_.code = numbers(b_, "embed.areas", e_.act, L_ * D, [=] { return grid.areas(D); });
  lead_.code = numbers(b_, "embed.lead_time", e_.act, D, [D, hours = n_.lead_time] {
    std::vector<float> code(static_cast<size_t>(D));
    fourier_code(hours, kLeadTimes, D, code.data());
    return code;
  });
  level_.code = numbers(b_, "embed.levels", e_.act, levels_ * D, [D, levels = n_.levels] {
    std::vector<float> code(levels.size() * static_cast<size_t>(D));
    for (size_t i = 0; i < levels.size(); ++i)
      fourier_code(static_cast<double>(levels[i]), kLevels, D, code.data() + static_cast<int64_t>(i) * D);
    return code;
  });
}

plan::SumAttrs Encoder::rows_of(int64_t rows, int64_t cols) const {
  return {.rows = rows, .cols = cols, .accumulate = e_.accumulates()};
}

plan::View Encoder::as_f32(const std::string& name, const plan::View& x) {
  if (e_.act == DType::f32) return x;
  const plan::View y = b_.scratch(name, DType::f32, x.count);
  b_.emit<plan::OpKind::cast>("embed/" + name + "/cast", {.count = x.count}, {x}, {y});
  return y;
}

// ---- forward ----

std::vector<Flow> Encoder::forward(const std::vector<Flow>&, const Forward& how) {
  declare_codes();
  const int64_t surface = B_ * L_ * D_, upper = surface * (n_.latent_levels - 1);
  const plan::View all = b_.scratch("embed.all", DType::f32, surface + upper);
  surface_forward(all.slice(0, surface));
  levels_forward(all.slice(surface, upper));
  const plan::View x = how.output_place(0), s = how.output_place(1);
  const plan::View positions = positions_forward();
  by_level_.gather("embed/stack", all, x, D_, positions,
                   indices(b_, "embed.patch", B_ * n_.latent_levels * L_,
                           [rows = B_ * n_.latent_levels * L_, L = L_] { return repeated(rows, L); }));
  const plan::View code = as_act(e_, "embed/time/cast", "embed.time.act", time_, true);
  time_code_.code = code;
  const plan::View of_time = b_.scratch("embed.time", DType::f32, B_ * D_);
  layers_.linear_forward("embed/absolute_time/forward", time_code_.linear, code, of_time, B_,
                         time_code_.linear.bias);
  b_.emit<plan::OpKind::gather>(
      "embed/absolute_time/add", {.rows = x.count / D_, .cols = D_, .batch = 1},
      {x, of_time,
       indices(b_, "embed.sample", x.count / D_,
               [rows = x.count / D_, one = n_.latent_levels * L_] { return runs(rows, one); }),
       plan::View{}, plan::View{}},
      {x});
  condition_forward(s);
  return {{.x = x}, {.x = s}};
}

void Encoder::patches(const std::string& path, int64_t images, int64_t channels, const plan::View& fields,
                      const plan::View& out) {
  b_.emit<plan::OpKind::patch_gather>(path,
                                      {.rows = images * L_,
                                       .batch = images,
                                       .channels = channels,
                                       .height = points_ / n_.img_width,
                                       .width = n_.img_width,
                                       .patch = n_.patch_size,
                                       .tokens = L_},
                                      {fields}, {out});
}

// Fields as products read them: variable by variable, each with its history
void Encoder::read_surface() {
  const int64_t T = n_.history, HW = n_.pixels(), C = n_.in_channels, S = n_.surface_fields(),
                F = n_.static_fields(), per_step = S + n_.upper_variables() * levels_;
  const int64_t channels = (S + F) * T;
  const plan::View fields = b_.scratch("embed.surface", DType::f32, B_ * channels * points_);
  const auto take = [&](const char* path, int64_t first, int64_t variables, int64_t step, int64_t at) {
    b_.emit<plan::OpKind::copy>(path,
                                {.run = points_,
                                 .extent = {B_, variables, T},
                                 .from = {C * HW, HW, step * HW},
                                 .to = {channels * points_, T * points_, points_}},
                                {input_.slice(first * HW + first_, input_.count - first * HW - first_)},
                                {fields.slice(at * points_, fields.count - at * points_)});
  };
  take("embed/surface/fields", 0, S, per_step, 0);
  if (F > 0) take("embed/surface/static", T * per_step, F, 0, S * T);
  patches("embed/surface/patches", B_, channels, fields, surface_patches_);
}

void Encoder::surface_forward(const plan::View& y) {
  const int64_t rows = B_ * L_;
  surface_patches_ = b_.saved("embed.surface.patches", e_.act, rows * surface_.in);
  before_ ? roll_surface() : read_surface();
  const plan::View embedded = b_.scratch("embed.surface.y", DType::f32, rows * D_);
  layers_.linear_forward("embed/surface/forward", surface_, surface_patches_, embedded, rows, surface_.bias);
  const plan::View x = b_.saved_or_scratch("embed.surface.x", DType::f32, rows * D_, e_.act == DType::f32);
  b_.emit<plan::OpKind::gather>(
      "embed/surface/level", {.rows = rows, .cols = D_, .batch = 1},
      {embedded, level_code_,
       indices(b_, "embed.zeros", rows, [rows] { return std::vector<int32_t>(rows, 0); }), plan::View{},
       plan::View{}},
      {x});
  x_ = as_act(e_, "embed/surface/cast", "embed.surface.x.act", x, true);
  u_ = b_.saved("embed.surface.u", e_.act, rows * fc1_.out);
  g_ = b_.saved("embed.surface.g", e_.act, rows * fc1_.out);
  layers_.linear_forward("embed/surface/fc1/forward", fc1_, x_, u_, rows, fc1_.bias);
  b_.emit<plan::OpKind::activation>("embed/surface/gelu/forward",
                                    {.rows = rows, .cols = fc1_.out, .accumulate = e_.accumulates()}, {u_},
                                    {g_});
  norm_.x = b_.saved("embed.surface.norm.x", e_.act, rows * D_);
  layers_.linear_forward("embed/surface/fc2/forward", fc2_, g_, norm_.x, rows, fc2_.bias);
  norm_.mean = b_.saved("embed.surface.mean", DType::f32, rows);
  norm_.rstd = b_.saved("embed.surface.rstd", DType::f32, rows);
  b_.emit<plan::OpKind::norm_residual>(
      "embed/surface/norm/forward",
      {.rows = rows, .cols = D_, .accumulate = e_.accumulates(), .eps = static_cast<float>(n_.norm_eps)},
      {norm_.x, x, norm_.gamma, norm_.beta}, {plan::View{}, y, norm_.mean, norm_.rstd});
}

void Encoder::read_upper() {
  const int64_t T = n_.history, HW = n_.pixels(), C = n_.in_channels, V = n_.upper_variables(),
                S = n_.surface_fields();
  const int64_t per_step = S + V * levels_;
  const plan::View fields = b_.scratch("embed.upper", DType::f32, B_ * levels_ * V * T * points_);
  for (int64_t t = 0; t < T; ++t) {
    const int64_t first = t * per_step + S;
    b_.emit<plan::OpKind::copy>("embed/upper/fields" + std::to_string(t),
                                {.run = points_,
                                 .extent = {B_, levels_, V},
                                 .from = {C * HW, HW, levels_ * HW},
                                 .to = {levels_ * V * T * points_, V * T * points_, T * points_}},
                                {input_.slice(first * HW + first_, input_.count - first * HW - first_)},
                                {fields.slice(t * points_, fields.count - t * points_)});
  }
  patches("embed/upper/patches", B_ * levels_, V * T, fields, upper_patches_);
}

void Encoder::levels_forward(const plan::View& y) {
  const int64_t rows = B_ * levels_ * L_;
  upper_patches_ = b_.saved("embed.upper.patches", e_.act, rows * upper_.in);
  before_ ? roll_upper() : read_upper();
  const plan::View embedded = b_.scratch("embed.upper.y", e_.act, rows * D_);
  layers_.linear_forward("embed/upper/forward", upper_, upper_patches_, embedded, rows, upper_.bias);
  const plan::View code = b_.scratch("embed.upper.level", e_.act, levels_ * D_);
  layers_.linear_forward("embed/atmos_levels/forward", level_.linear, level_.code, code, levels_,
                         level_.linear.bias);
  const plan::View context = b_.saved("embed.upper.context", e_.act, rows * D_);
  by_patch_.gather("embed/upper/by_patch", embedded, context, D_, code,
                   indices(b_, "embed.level", rows, [rows, C = levels_] { return repeated(rows, C); }));
  perceiver_.forward(latents_, context, y);
}

// The sum of codes that is added to every level of x: [patches, D] f32
plan::View Encoder::positions_forward() {
  const plan::View sum = b_.scratch("embed.positions.sum", DType::f32, L_ * D_);
  layers_.linear_forward("embed/pos/forward", position_.linear, position_.code, sum, L_,
                         position_.linear.bias);
  const plan::View area = b_.scratch("embed.areas.y", DType::f32, L_ * D_);
  layers_.linear_forward("embed/scale/forward", area_.linear, area_.code, area, L_, area_.linear.bias);
  const plan::View lead = b_.scratch("embed.lead_time.y", DType::f32, D_);
  layers_.linear_forward("embed/lead_time/forward", lead_.linear, lead_.code, lead, 1, lead_.linear.bias);
  b_.emit<plan::OpKind::gather>(
      "embed/positions/sum", {.rows = L_, .cols = D_, .batch = 1},
      {sum, area, indices(b_, "embed.each", L_, [L = L_] { return repeated(L, L); }), lead,
       indices(b_, "embed.first", L_, [L = L_] { return std::vector<int32_t>(L, 0); })},
      {sum});
  return sum;
}

// s = SiLU(W2 SiLU(W1 code)), f32
void Encoder::condition_forward(const plan::View& s) {
  const plan::ActivationAttrs silu{.rows = 1, .cols = D_, .function = Activation::silu};
  c1_ = b_.saved("embed.condition.u1", DType::f32, D_);
  layers_.linear_forward("embed/time_mlp/0/forward", time1_, lead_.code, c1_, 1, time1_.bias);
  const plan::View g = b_.saved_or_scratch("embed.condition.g1", DType::f32, D_, e_.act == DType::f32);
  b_.emit<plan::OpKind::activation>("embed/time_mlp/silu/forward", silu, {c1_}, {g});
  c1_act_ = as_act(e_, "embed/time_mlp/cast", "embed.condition.g1.act", g, true);
  c2_ = b_.saved("embed.condition.u2", DType::f32, D_);
  layers_.linear_forward("embed/time_mlp/2/forward", time2_, c1_act_, c2_, 1, time2_.bias);
  b_.emit<plan::OpKind::activation>("embed/condition/silu/forward", silu, {c2_}, {s});
}

// ---- backward ----

void Encoder::backward(const std::vector<Gradient>& out, std::vector<Gradient>&) {
  const int64_t surface = B_ * L_ * D_;
  const plan::View dx = out[0].dx;
  condition_backward(out[1].dx);
  const plan::View dtime = e_.operand("embed.dtime", e_.act, B_ * D_);
  const plan::View dtime32 =
      e_.act == DType::f32 ? dtime : b_.scratch("embed.dtime32", DType::f32, dtime.count);
  b_.emit<plan::OpKind::segment_sum>("embed/absolute_time/sum",
                                     {.rows = dx.count / D_, .cols = D_, .batch = 1},
                                     {dx,
                                      indices(b_, "embed.sample_offsets", B_ + 1,
                                              [B = B_, one = n_.latent_levels * L_] {
                                                std::vector<int32_t> offsets;
                                                for (int64_t i = 0; i <= B; ++i)
                                                  offsets.push_back(static_cast<int32_t>(i * one));
                                                return offsets;
                                              }),
                                      plan::View{}},
                                     {dtime32});
  if (e_.act != DType::f32)
    b_.emit<plan::OpKind::cast>("embed/absolute_time/cast", {.count = dtime.count}, {dtime32}, {dtime});
  code_backward(time_code_, dtime, B_);
  positions_backward(dx);
  const plan::View dall = b_.scratch("embed.dall", DType::f32, dx.count);
  by_level_.back("embed/stack/backward", {}, dx, dall, D_);
  levels_backward(dall.slice(surface, dall.count - surface));
  surface_backward(dall.slice(0, surface));
}

void Encoder::code_backward(Codes& c, const plan::View& dy, int64_t rows) {
  const std::string path = std::string("embed/") + c.name;
  b_.emit<plan::OpKind::column_sum>(path + "/backward_bias", rows_of(rows, D_), {dy},
                                    {b_.grad(c.linear.bias)});
  layers_.linear_backward_weight(path, c.linear, c.code, dy, rows);
}

void Encoder::condition_backward(const plan::View& ds) {
  const plan::ActivationAttrs silu{
      .rows = 1, .cols = D_, .accumulate = e_.accumulates(), .function = Activation::silu};
  plan::View du = e_.operand("embed.condition.du2", DType::f32, D_);
  b_.emit<plan::OpKind::activation_backward>("embed/condition/silu/backward", silu, {c2_, ds},
                                             {du, b_.grad(time2_.bias)});
  plan::View dy = as_act(e_, "embed/time_mlp/2/backward_cast", "embed.condition.du2.act", du, e_.split);
  const plan::View dg = b_.scratch("embed.condition.dg1", DType::f32, D_);
  layers_.linear_backward_input("embed/time_mlp/2", time2_, dy, dg, 1);
  layers_.linear_backward_weight("embed/time_mlp/2", time2_, c1_act_, dy, 1);
  du = e_.operand("embed.condition.du1", DType::f32, D_);
  b_.emit<plan::OpKind::activation_backward>("embed/time_mlp/silu/backward", silu, {c1_, dg},
                                             {du, b_.grad(time1_.bias)});
  dy = as_act(e_, "embed/time_mlp/0/backward_cast", "embed.condition.du1.act", du, e_.split);
  layers_.linear_backward_weight("embed/time_mlp/0", time1_, lead_.code, dy, 1);
}

void Encoder::positions_backward(const plan::View& dx) {
  const plan::View sum = e_.operand("embed.dpositions", DType::f32, L_ * D_);
  b_.emit<plan::OpKind::period_sum>("embed/positions/backward",
                                    {.rows = dx.count / D_, .cols = D_, .period = L_}, {dx}, {sum});
  const plan::View dy = as_act(e_, "embed/positions/backward_cast", "embed.dpositions.act", sum, e_.split);
  code_backward(position_, dy, L_);
  code_backward(area_, dy, L_);
  const plan::View one = e_.operand("embed.dlead_time", DType::f32, D_);
  b_.emit<plan::OpKind::column_sum>("embed/lead_time/sum", {.rows = L_, .cols = D_}, {sum}, {one});
  code_backward(lead_, as_act(e_, "embed/lead_time/backward_cast", "embed.dlead_time.act", one, e_.split), 1);
}

void Encoder::levels_backward(const plan::View& dy) {
  const int64_t rows = B_ * levels_ * L_, latents = (n_.latent_levels - 1) * D_;
  const plan::View dlatents = b_.scratch("embed.dlatents", DType::f32, latents);
  const plan::View dcontext = b_.scratch("embed.dcontext", e_.act, rows * D_);
  perceiver_.backward(dy, dlatents, dcontext);
  b_.emit<plan::OpKind::period_sum>("embed/atmos_latents/backward",
                                    {.rows = n_.latent_levels - 1,
                                     .cols = D_,
                                     .accumulate = e_.accumulates(),
                                     .period = n_.latent_levels - 1},
                                    {dlatents}, {b_.grad(latents_)});
  const plan::View dlevels = e_.operand("embed.dlevels", DType::f32, levels_ * D_);
  b_.emit<plan::OpKind::period_sum>("embed/atmos_levels/sum", {.rows = rows, .cols = D_, .period = levels_},
                                    {as_f32("dcontext32", dcontext)}, {dlevels});
  code_backward(level_,
                as_act(e_, "embed/atmos_levels/backward_cast", "embed.dlevels.act", dlevels, e_.split),
                levels_);
  const plan::View dembedded = e_.operand("embed.dupper", e_.act, rows * D_);
  by_patch_.back("embed/upper/by_patch/backward", {}, dcontext, dembedded, D_);
  b_.emit<plan::OpKind::column_sum>("embed/upper/backward_bias", rows_of(rows, D_), {dembedded},
                                    {b_.grad(upper_.bias)});
  if (e_.roll.gradient_before()) upper_back(dembedded);
  layers_.linear_backward_weight("embed/upper", upper_, upper_patches_, dembedded, rows);
}

void Encoder::surface_backward(const plan::View& dy) {
  const int64_t rows = B_ * L_;
  const plan::View dz = e_.operand("embed.surface.dz", e_.act, rows * D_);
  b_.emit<plan::OpKind::norm_residual_backward>(
      "embed/surface/norm/backward",
      {.rows = rows, .cols = D_, .accumulate = e_.accumulates(), .eps = static_cast<float>(n_.norm_eps)},
      {norm_.x, norm_.mean, norm_.rstd, norm_.gamma,
       as_act(e_, "embed/surface/norm/backward_cast", "embed.surface.dh", dy, false)},
      {dz, b_.grad(norm_.gamma), b_.grad(norm_.beta), b_.grad(fc2_.bias)});
  const plan::View du = e_.operand("embed.surface.du", e_.act, rows * fc1_.out);
  layers_.linear_backward_input("embed/surface/fc2", fc2_, dz, du, rows);
  layers_.linear_backward_weight("embed/surface/fc2", fc2_, g_, dz, rows);
  b_.emit<plan::OpKind::activation_backward>("embed/surface/gelu/backward",
                                             {.rows = rows, .cols = fc1_.out, .accumulate = e_.accumulates()},
                                             {u_, du}, {du, b_.grad(fc1_.bias)});
  layers_.linear_backward_input("embed/surface/fc1", fc1_, du, dy, rows, true);
  layers_.linear_backward_weight("embed/surface/fc1", fc1_, x_, du, rows);
  b_.emit<plan::OpKind::column_sum>("embed/surface/level/backward", rows_of(rows, D_), {dy},
                                    {b_.grad(level_code_)});
  b_.emit<plan::OpKind::column_sum>("embed/surface/backward_bias", rows_of(rows, D_), {dy},
                                    {b_.grad(surface_.bias)});
  plan::View dx = e_.operand("embed.surface.dx", e_.act, rows * D_);
  if (e_.act == DType::f32 && !e_.split)
    dx = dy;
  else
    b_.convert("embed/surface/backward_cast", dy, dx);
  if (e_.roll.gradient_before()) surface_back(dx);
  layers_.linear_backward_weight("embed/surface", surface_, surface_patches_, dx, rows);
}

}  // namespace isobar::nets::aurora
