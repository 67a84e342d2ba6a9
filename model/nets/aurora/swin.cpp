#include "model/nets/aurora/swin.h"

#include <cmath>

#include "model/nets/declare.h"
#include "model/nets/graph_mlp.h"

namespace isobar::aurora {

// ---- adaptive LayerNorm ----

AdaptiveNorm::AdaptiveNorm(Emission& e, const Sharding& at, std::string path, std::string name, int64_t width,
                           int64_t condition, double eps)
    : e_(e),
      b_(e.b),
      layers_(e, at),
      path_(std::move(path)),
      name_(std::move(name)),
      D_(width),
      condition_(condition),
      eps_(static_cast<float>(eps)) {}

// Zeros: at first a block adds nothing.
void AdaptiveNorm::declare(Declare& d) {
  const std::string name = name_ + ".ln_modulation.1";
  d.linear(modulation_, condition_, 2 * D_, {{name + ".weight", {2 * D_, condition_}, Init::zero}},
           {{name + ".bias", {2 * D_}, Init::zero}});
}

void AdaptiveNorm::forward(const std::string& pass, const View& x, const View& residual, const View& y,
                           const View& s, int64_t rows, bool keep) {
  x_ = x, s_ = s;
  shift_scale_ = b_.hold(path_ + ".modulation", DType::f32, 2 * D_, keep);
  layers_.linear_forward(path_ + "/modulation" + pass, modulation_, s, shift_scale_, 1, modulation_.bias);
  mean_ = b_.hold(path_ + ".mean", DType::f32, rows, keep);
  rstd_ = b_.hold(path_ + ".rstd", DType::f32, rows, keep);
  b_.emit(OpKind::norm_residual, path_ + pass, {.m = rows, .n = D_, .eps = eps_},
          {x, residual, shift_scale_.slice(D_, D_), shift_scale_.slice(0, D_)}, {View{}, y, mean_, rstd_});
}

// The norm's op adds to the gradients of gain and shift as it does to that of the bias before it: where it
// adds they begin at zero.
void AdaptiveNorm::backward(const View& dh, const View& dx, const View& ds, bool add, const View& dbias,
                            int64_t rows) {
  View dm = e_.operand(path_ + ".dmodulation", DType::f32, 2 * D_);
  if (e_.accumulates())
    b_.emit(OpKind::zero, path_ + "/modulation/backward_zero", {.m = 1, .n = dm.count}, {}, {dm});
  b_.emit(OpKind::norm_residual_backward, path_ + "/backward",
          {.m = rows, .n = D_, .accumulate = e_.accumulates(), .eps = eps_},
          {x_, mean_, rstd_, shift_scale_.slice(D_, D_), dh},
          {dx, dm.slice(D_, D_), dm.slice(0, D_), dbias ? b_.grad(dbias) : View{}});
  if (e_.act != DType::f32) {
    const View cast = e_.operand(path_ + ".dmodulation.act", e_.act, dm.count);
    b_.emit(OpKind::cast, path_ + "/modulation/backward_cast", {.m = 1, .n = dm.count}, {dm}, {cast});
    dm = cast;
  }
  b_.emit(OpKind::column_sum, path_ + "/modulation/backward_bias",
          {.m = 1, .n = dm.count, .accumulate = e_.accumulates()}, {dm}, {b_.grad(modulation_.bias)});
  layers_.linear_backward_input(path_ + "/modulation", modulation_, dm, ds, 1, add);
  layers_.linear_backward_weight(path_ + "/modulation", modulation_, s_, dm, 1);
}

Windows::Windows(Builder& b, const std::string& name, const Sizes3& grid, const Sizes3& window, bool shifted,
                 int64_t batch)
    : runs(WindowOrder(grid, window, shifted, batch).runs()),
      order(
          b, name, WindowOrder(grid, window, shifted, batch).rows(), batch * grid[0] * grid[1] * grid[2],
          [=] { return WindowOrder(grid, window, shifted, batch).from(); },
          [=] { return WindowOrder(grid, window, shifted, batch).to(); }) {}

namespace {

std::shared_ptr<const RowExchange> exchange_of_windows(const Sizes3& grid, const Sizes3& window, bool shifted,
                                                       int64_t batch, const Bands& bands, int64_t rank) {
  std::vector<std::vector<int32_t>> from;
  for (int64_t r = 0; r < bands.ranks(); ++r)
    from.push_back(WindowOrder(grid, window, shifted, batch, bands, r).from());
  return std::make_shared<const RowExchange>(exchange_of(grid, batch, bands, from, rank));
}

}  // namespace

Windows::Windows(Builder& b, const std::string& name, const Sizes3& grid, const Sizes3& window, bool shifted,
                 int64_t batch, const Bands& bands, int64_t rank, int group)
    : runs(WindowOrder(grid, window, shifted, batch, bands, rank).runs()),
      order(b, name, exchange_of_windows(grid, window, shifted, batch, bands, rank), group) {}

// ---- the block ----

SwinBlock::SwinBlock(int index, std::string path, std::string name, Emission& e, const Sharding& at,
                     Windows& windows, const Shape& shape)
    : NetPart(index, std::move(path)),
      name_(std::move(name)),
      e_(e),
      b_(e.b),
      at_(at),
      layers_(e, at),
      windows_(windows),
      s_(shape),
      rows_(windows.order.outside),
      width_(shape.width / at.tp),
      selective_(e.spec.policy.recompute == "selective"),
      norm1_(e, at, this->path() + "/norm1", name_ + ".norm1", shape.width, shape.condition, shape.eps),
      norm2_(e, at, this->path() + "/norm2", name_ + ".norm2", shape.width, shape.condition, shape.eps) {}

void SwinBlock::declare(Declare& d) {
  const int64_t D = s_.width;
  norm1_.declare(d);
  std::vector<Param> weights, biases;
  for (const char* which : {"q", "k", "v"}) {
    weights.push_back({name_ + ".attn." + which + ".weight", {D, D}, Init::normal, kSigma, 0});
    biases.push_back({name_ + ".attn." + which + ".bias", {D}, Init::zero, 0, 0});
  }
  d.linear(qkv_, D, 3 * D, std::move(weights), std::move(biases));
  d.linear(proj_, name_ + ".attn.proj", D, D, 1, true);
  norm2_.declare(d);
  d.linear(fc1_, name_ + ".mlp.fc1", D, s_.hidden, 0, true);
  d.linear(fc2_, name_ + ".mlp.fc2", s_.hidden, D, 1, true);
}

// Only a recomputation reads the stream again; the conditioning is a row that all blocks of a stage share.
View SwinBlock::door(size_t in) {
  const InPart here(b_, index());
  if (in == kCondition) return b_.saved(path() + ".condition", DType::f32, s_.condition);
  return b_.hold(path() + ".x", DType::f32, rows_ * s_.width, e_.spec.policy.recompute == "full");
}

template <class F>
void SwinBlock::each_run(F&& f) const {
  const int64_t heads = s_.heads / at_.tp, d = s_.width / s_.heads;
  int64_t row = 0;
  for (const WindowRun& run : windows_.runs) {
    f(Attrs{.batch = run.segments,
            .heads = heads,
            .kv_heads = heads,
            .tq = run.length,
            .tk = run.length,
            .d = d,
            .ld_q = 3 * width_,
            .ld_kv = 3 * width_,
            .ld_o = width_,
            .scale = 1.0f / std::sqrt(static_cast<float>(d))},
      row, run.rows());
    row += run.rows();
  }
}

// q, k or v of some rows of the fused [rows, 3 width] matrix: the span that they cover
View SwinBlock::part(const View& qkv, int which, int64_t row, int64_t rows) const {
  return qkv.slice((3 * row + which) * width_, (3 * (rows - 1) + 1) * width_);
}

Attrs SwinBlock::rows_of(int64_t rows, int64_t cols) const {
  return {.m = rows, .n = cols, .accumulate = e_.accumulates()};
}

// ---- forward ----

std::vector<Flow> SwinBlock::forward(const std::vector<Flow>& in, const Forward& how) {
  if (!how.again) in_ = in;
  const std::string pass = how.pass(), attn = path() + "/attn", mlp = path() + "/mlp";
  const bool keep = how.keep == Keep::all;
  const int64_t D = s_.width, R = windows_.order.inside;
  const View x = in[kX].x;
  condition_ = as_act(e_, path() + "/condition" + pass, path() + ".condition.act", in[kCondition].x, keep);

  windowed_ = b_.hold(path() + ".windows", e_.act, R * D, keep);
  windows_.order.gather(attn + "/windows" + pass,
                        as_act(e_, path() + "/cast" + pass, path() + ".x.act", x, false), windowed_, D);
  projections_ = b_.hold(path() + ".qkv", e_.act, R * 3 * width_, keep);
  layers_.linear_forward(attn + "/qkv" + pass, qkv_, windowed_, projections_, R, qkv_.bias);
  attention(pass, keep && !selective_);
  View y = b_.scratch(path() + ".attn.y", e_.act, R * D);
  layers_.linear_forward(attn + "/proj" + pass, proj_, o_, y, R, layers_.once(proj_.bias));
  y = layers_.result(attn + "/proj" + pass, y);
  const View back = b_.hold(path() + ".attn.back", e_.act, rows_ * D, keep);
  windows_.order.back(attn + "/back" + pass, {}, y, back, D);
  const View a = b_.hold(path() + ".a", DType::f32, rows_ * D, keep && e_.act == DType::f32);
  norm1_.forward(pass, back, x, a, condition_, rows_, keep);

  a_ = as_act(e_, mlp + "/cast" + pass, path() + ".a.act", a, keep);
  u_ = b_.hold(path() + ".u", e_.act, rows_ * fc1_.out, keep);
  layers_.linear_forward(mlp + "/fc1" + pass, fc1_, a_, u_, rows_, fc1_.bias);
  activate(pass, keep && !selective_);
  y = b_.hold(path() + ".mlp.y", e_.act, rows_ * D, keep);
  layers_.linear_forward(mlp + "/fc2" + pass, fc2_, g_, y, rows_, layers_.once(fc2_.bias));
  y = layers_.result(mlp + "/fc2" + pass, y);
  // Of a recomputation whose result nobody reads, the norm's statistics are still wanted.
  const View out = how.again ? b_.scratch(path() + ".y", DType::f32, rows_ * D) : how.lies(kX);
  norm2_.forward(pass, y, a, out, condition_, rows_, keep);
  if (s_.last) return {{.x = out}};
  return {{.x = out}, {.x = in[kCondition].x}};
}

void SwinBlock::attention(const std::string& pass, bool keep) {
  const int64_t R = windows_.order.inside, heads = s_.heads / at_.tp;
  o_ = b_.hold(path() + ".o", e_.act, R * width_, keep);
  lse_ = b_.hold(path() + ".lse", DType::f32, R * heads, keep);
  each_run([&](const Attrs& a, int64_t row, int64_t rows) {
    b_.emit_with_workspace(OpKind::attention, path() + "/attn/core" + std::to_string(a.tq) + pass, a,
                           {part(projections_, 0, row, rows), part(projections_, 1, row, rows),
                            part(projections_, 2, row, rows)},
                           {o_.slice(row * width_, rows * width_), lse_.slice(row * heads, rows * heads)});
  });
}

void SwinBlock::activate(const std::string& pass, bool keep) {
  g_ = b_.hold(path() + ".g", e_.act, rows_ * fc1_.out, keep);
  b_.emit(OpKind::activation, path() + "/mlp/gelu" + pass, rows_of(rows_, fc1_.out), {u_}, {g_});
}

// ---- backward ----

// dx += dh, which is of the type of activations
void SwinBlock::added(const std::string& path, const View& dh, const View& dx) const {
  b_.emit(OpKind::cast, path, {.m = 1, .n = dx.count, .accumulate = true}, {dh}, {dx});
}

void SwinBlock::backward(const std::vector<Gradient>&, std::vector<Gradient>& in) {
  const std::string attn = path() + "/attn", mlp = path() + "/mlp";
  const int64_t D = s_.width, R = windows_.order.inside, heads = s_.heads / at_.tp;
  const View dx = in[kX].dx, ds = in[kCondition].dx;

  const View dz = e_.operand(path() + ".dz", e_.act, rows_ * D);
  norm2_.backward(as_act(e_, path() + "/norm2/backward_cast", path() + ".norm2.dh", dx, false), dz, ds,
                  !s_.last, fc2_.bias, rows_);
  if (selective_) activate("/recompute", false);
  const View du = e_.operand(path() + ".du", e_.act, rows_ * fc1_.out);
  layers_.linear_backward_input(mlp + "/fc2", fc2_, dz, du, rows_);
  layers_.linear_backward_weight(mlp + "/fc2", fc2_, g_, dz, rows_);
  b_.emit(OpKind::activation_backward, mlp + "/gelu/backward", rows_of(rows_, fc1_.out), {u_, du},
          {du, b_.grad(fc1_.bias)});
  if (at_.tp == 1) {
    layers_.linear_backward_input(mlp + "/fc1", fc1_, du, dx, rows_, true);
  } else {
    const View dh = b_.scratch(path() + ".mlp.dh", e_.act, rows_ * D);
    layers_.linear_backward_input(mlp + "/fc1", fc1_, du, dh, rows_);
    added(mlp + "/fc1/backward_add", layers_.result(mlp + "/fc1/backward_input", dh), dx);
  }
  layers_.linear_backward_weight(mlp + "/fc1", fc1_, a_, du, rows_);

  const View dback = b_.scratch(path() + ".dback", e_.act, rows_ * D);
  norm1_.backward(as_act(e_, path() + "/norm1/backward_cast", path() + ".norm1.dh", dx, false), dback, ds,
                  true, proj_.bias, rows_);
  const View dy = e_.operand(path() + ".dy", e_.act, R * D);
  windows_.order.gather(attn + "/back/backward", dback, dy, D);
  if (selective_) attention("/recompute", false);
  const View d_o = b_.scratch(path() + ".do", e_.act, R * width_);
  layers_.linear_backward_input(attn + "/proj", proj_, dy, d_o, R);
  layers_.linear_backward_weight(attn + "/proj", proj_, o_, dy, R);
  const View dqkv = e_.operand(path() + ".dqkv", e_.act, R * 3 * width_);
  each_run([&](const Attrs& a, int64_t row, int64_t rows) {
    b_.emit_with_workspace(OpKind::attention_backward, attn + "/core" + std::to_string(a.tq) + "/backward", a,
                           {part(projections_, 0, row, rows), part(projections_, 1, row, rows),
                            part(projections_, 2, row, rows), o_.slice(row * width_, rows * width_),
                            lse_.slice(row * heads, rows * heads), d_o.slice(row * width_, rows * width_)},
                           {part(dqkv, 0, row, rows), part(dqkv, 1, row, rows), part(dqkv, 2, row, rows)});
  });
  b_.emit(OpKind::column_sum, attn + "/qkv/backward_bias", rows_of(R, 3 * width_), {dqkv},
          {b_.grad(qkv_.bias)});
  View dwindows = b_.scratch(path() + ".dwindows", e_.act, R * D);
  layers_.linear_backward_input(attn + "/qkv", qkv_, dqkv, dwindows, R);
  dwindows = layers_.result(attn + "/qkv/backward_input", dwindows);
  if (e_.act == DType::f32) {
    windows_.order.back(attn + "/windows/backward", dx, dwindows, dx, D);
  } else {
    const View dh = b_.scratch(path() + ".windows.dh", e_.act, rows_ * D);
    windows_.order.back(attn + "/windows/backward", {}, dwindows, dh, D);
    added(attn + "/windows/backward_add", dh, dx);
  }
  layers_.linear_backward_weight(attn + "/qkv", qkv_, windowed_, dqkv, R);
}

}  // namespace isobar::aurora
