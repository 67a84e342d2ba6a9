#include "model/nets/windows/attention.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>

#include "model/nets/declare.h"

namespace isobar::nets {

namespace {

Sizes3 inside(const WindowGrid& of) {
  Sizes3 out;
  for (size_t axis = 0; axis < 3; ++axis) out[axis] = std::min(of.grid[axis], of.window[axis]);
  return out;
}

}  // namespace

Windows::Windows(plan::Builder& b, const std::string& name, const WindowGrid& of, int64_t batch)
    : runs(WindowOrder(of, batch).runs()),
      order(
          b, name, WindowOrder(of, batch).rows(), batch * of.rows(),
          [=] { return WindowOrder(of, batch).from(); }, [=] { return WindowOrder(of, batch).to(); }),
      window(inside(of)),
      b_(b),
      name_(name),
      pairs_(runs.size()) {}

namespace {

// Layers of one resolution, and a search's plans of every tp and recomputation, share exchanges: the last
// ones are kept.
std::shared_ptr<const RowExchange> exchange_of_windows(const WindowGrid& of, int64_t batch,
                                                       const Bands& bands, int64_t rank) {
  constexpr size_t kKept = 64;
  struct Kept {
    WindowGrid of;
    int64_t batch, rank;
    Bands bands;
    std::shared_ptr<const RowExchange> exchange;
  };
  thread_local std::deque<Kept> all;
  for (const Kept& k : all)
    if (k.of == of && k.batch == batch && k.rank == rank && k.bands == bands) return k.exchange;
  if (all.size() == kKept) all.pop_front();
  all.push_back({of, batch, rank, bands, std::make_shared<const RowExchange>(of, batch, bands, rank)});
  return all.back().exchange;
}

}  // namespace

Windows::Windows(plan::Builder& b, const std::string& name, const WindowGrid& of, int64_t batch,
                 const Bands& bands, int64_t rank, int group)
    : runs(WindowOrder(of, batch, bands, rank).runs()),
      order(b, name, exchange_of_windows(of, batch, bands, rank), group),
      window(inside(of)),
      b_(b),
      name_(name),
      pairs_(runs.size()) {}

plan::View Windows::constant(plan::View& made, const std::string& what, int64_t count,
                             const RowOrder::Make& make) {
  if (!made) made = indices(b_, name_ + "." + what, count, make);
  return made;
}

// Runs of equal sides share them.
Windows::Pairs& Windows::pairs_of(size_t run) {
  const auto first =
      std::find_if(runs.begin(), runs.end(), [&](const WindowRun& r) { return r.sides == runs[run].sides; });
  return pairs_[static_cast<size_t>(first - runs.begin())];
}

plan::View Windows::distances(size_t run) {
  const WindowRun& r = runs[run];
  return constant(pairs_of(run).distances, "distances" + r.text(), r.length * r.length,
                  [w = window, s = r.sides] { return distances_of(w, s); });
}

std::pair<plan::View, plan::View> Windows::pairs_by_distance(size_t run) {
  const WindowRun& r = runs[run];
  const auto of_pairs = [w = window, s = r.sides] { return distances_of(w, s); };
  const auto offsets = [of_pairs, all = isobar::nets::distances(window)] {
    std::vector<int32_t> out(static_cast<size_t>(all) + 1);
    for (const int32_t d : of_pairs()) ++out[static_cast<size_t>(d) + 1];
    std::partial_sum(out.begin(), out.end(), out.begin());
    return out;
  };
  const auto order = [of_pairs] {
    const std::vector<int32_t> of = of_pairs();
    std::vector<int32_t> out(of.size());
    std::iota(out.begin(), out.end(), 0);
    std::stable_sort(out.begin(), out.end(), [&](int32_t a, int32_t b) { return of[a] < of[b]; });
    return out;
  };
  return {constant(pairs_of(run).offsets, "offsets" + r.text(), isobar::nets::distances(window) + 1, offsets),
          constant(pairs_of(run).order, "order" + r.text(), r.length * r.length, order)};
}

WindowAttention::WindowAttention(Emission& e, const Sharding& at, std::string path, std::string name,
                                 Windows& windows, const Shape& shape)
    : e_(e),
      b_(e.b),
      at_(at),
      layers_(e, at),
      path_(std::move(path)),
      name_(std::move(name)),
      windows_(windows),
      s_(shape),
      width_(shape.width / at.tp),
      selective_(e.spec.policy.recompute == Recompute::selective) {
  if (shape.bias) bias_.emplace(e, at, path_, name_, windows, shape.heads);
}

void WindowAttention::declare(Declare& d) {
  const int64_t D = s_.width;
  std::vector<plan::Param> weights, biases;
  for (const char* which : {"q", "k", "v"}) {
    weights.push_back({name_ + ".attn." + which + ".weight", {D, D}, plan::Init::normal, kSigma, 0});
    biases.push_back({name_ + ".attn." + which + ".bias", {D}, plan::Init::zero, 0, 0});
  }
  d.linear(qkv_, D, 3 * D, std::move(weights), std::move(biases));
  if (bias_) bias_->declare(d);
  d.linear(proj_, name_ + ".attn.proj", D, D, 1, true);
}

// Windows whose rows are all on this rank, and windows that need an exchange, in the order of work.
std::vector<WindowAttention::Share> WindowAttention::shares() const {
  const int64_t own = windows_.order.own, all = windows_.order.inside;
  if (own == all) return {{"", 0, all, false}};
  if (own == 0) return {{"", 0, all, true}};
  return {{"/own", 0, own, false}, {"/shared", own, all - own, true}};
}

std::vector<WindowAttention::Share> WindowAttention::shares_exchanged_first() const {
  std::vector<Share> out = shares();
  std::reverse(out.begin(), out.end());
  return out;
}

template <class F>
void WindowAttention::each_run(const Share& share, F&& f) const {
  const int64_t heads = s_.heads / at_.tp, d = s_.width / s_.heads;
  int64_t row = 0;
  for (size_t i = 0; i < windows_.runs.size(); ++i) {
    const WindowRun& run = windows_.runs[i];
    if (row >= share.row && row < share.row + share.rows)
      f(plan::AttentionAttrs{.batch = run.segments,
                             .heads = heads,
                             .kv_heads = heads,
                             .tq = run.length,
                             .tk = run.length,
                             .d = d,
                             .ld_q = 3 * width_,
                             .ld_kv = 3 * width_,
                             .ld_o = width_,
                             .scale = 1.0f / std::sqrt(static_cast<float>(d)),
                             .last_counts = run.last_counts},
        i, row);
    row += run.rows();
  }
}

std::string WindowAttention::core(size_t run, const Share& share) const {
  return path_ + "/attn/core" + windows_.runs[run].text() + share.name;
}

// q, k or v of some rows of the fused [rows, 3 width] matrix, as the span that covers them
plan::View WindowAttention::part(const plan::View& qkv, int which, int64_t row, int64_t rows) const {
  return qkv.slice((3 * row + which) * width_, (3 * (rows - 1) + 1) * width_);
}

// ---- forward ----

void WindowAttention::forward(const std::string& pass, const plan::View& h, const plan::View& y, bool keep) {
  const std::string attn = path_ + "/attn";
  const int64_t D = s_.width, R = windows_.order.inside;
  RowOrder& order = windows_.order;
  windowed_ = b_.saved_or_scratch(path_ + ".windows", e_.act, R * D, keep);
  projections_ = b_.saved_or_scratch(path_ + ".qkv", e_.act, R * 3 * width_, keep);
  hold(keep && !selective_);
  const plan::View result = b_.scratch(path_ + ".attn.y", e_.act, R * D);
  const plan::View others = order.fetch(attn + "/windows" + pass, h, D);
  if (bias_) bias_->forward(pass);
  for (const Share& s : shares()) {
    order.take(attn + "/windows" + s.name + pass, h, s.exchanged ? others : plan::View{}, windowed_, D, s.row,
               s.rows);
    layers_.linear_forward(attn + "/qkv" + s.name + pass, qkv_, windowed_.slice(s.row * D, s.rows * D),
                           projections_.slice(s.row * 3 * width_, s.rows * 3 * width_), s.rows, qkv_.bias);
    attend(pass, s);
  }
  // Without shared rows there is no exchange to start first.
  plan::View returned = order.own == R ? order.give(attn + "/back" + pass, result, D) : plan::View{};
  for (const Share& s : shares_exchanged_first()) {
    const plan::View part = result.slice(s.row * D, s.rows * D);
    layers_.linear_forward(attn + "/proj" + s.name + pass, proj_, o_.slice(s.row * width_, s.rows * width_),
                           part, s.rows, layers_.once(proj_.bias));
    layers_.result(attn + "/proj" + s.name + pass, part);
    if (s.exchanged) returned = order.give(attn + "/back" + pass, result, D);
  }
  order.back(attn + "/back" + pass, {}, result, y, D, returned);
}

void WindowAttention::hold(bool keep) {
  const int64_t R = windows_.order.inside;
  o_ = b_.saved_or_scratch(path_ + ".o", e_.act, R * width_, keep);
  lse_ = b_.saved_or_scratch(path_ + ".lse", DType::f32, R * (s_.heads / at_.tp), keep);
}

// Operands q, k and v of a run
std::vector<plan::View> WindowAttention::operands(const plan::View& qkv, size_t run, int64_t row) const {
  const int64_t rows = windows_.runs[run].rows();
  return {part(qkv, 0, row, rows), part(qkv, 1, row, rows), part(qkv, 2, row, rows)};
}

void WindowAttention::attend(const std::string& pass, const Share& share) {
  const int64_t heads = s_.heads / at_.tp;
  each_run(share, [&](const plan::AttentionAttrs& a, size_t run, int64_t row) {
    const int64_t rows = windows_.runs[run].rows();
    std::vector<plan::View> reads = operands(projections_, run, row);
    if (bias_) reads.push_back(bias_->of(run));
    b_.emit_with_workspace<plan::OpKind::attention>(
        core(run, share) + pass, a, std::move(reads),
        {o_.slice(row * width_, rows * width_), lse_.slice(row * heads, rows * heads)});
  });
}

void WindowAttention::attend_backward(const Share& share, const plan::View& d_o, const plan::View& dqkv) {
  const int64_t heads = s_.heads / at_.tp;
  each_run(share, [&](const plan::AttentionAttrs& a, size_t run, int64_t row) {
    const int64_t rows = windows_.runs[run].rows();
    std::vector<plan::View> reads = operands(projections_, run, row), writes = operands(dqkv, run, row);
    reads.insert(reads.end(), {o_.slice(row * width_, rows * width_), lse_.slice(row * heads, rows * heads),
                               d_o.slice(row * width_, rows * width_)});
    if (bias_) reads.push_back(bias_->of(run));
    writes.push_back(bias_ ? bias_->gradient_of(run) : plan::View{});
    b_.emit_with_workspace<plan::OpKind::attention_backward>(core(run, share) + "/backward", a,
                                                             std::move(reads), std::move(writes));
  });
}

// ---- backward ----

plan::View WindowAttention::backward(const plan::View& dy, const plan::View& onto) {
  const std::string attn = path_ + "/attn";
  const int64_t D = s_.width, R = windows_.order.inside;
  RowOrder& order = windows_.order;
  const plan::View dresult = e_.operand(path_ + ".dy", e_.act, R * D);
  const plan::View others = order.fetch(attn + "/back/backward", dy, D);
  if (bias_) bias_->backward_begins();
  if (selective_) {
    hold(false);
    for (const Share& s : shares()) attend("/recompute", s);
  }
  const plan::View d_o = b_.scratch(path_ + ".do", e_.act, R * width_);
  dqkv_ = e_.operand(path_ + ".dqkv", e_.act, R * 3 * width_);
  for (const Share& s : shares()) {
    order.take(attn + "/back" + s.name + "/backward", dy, s.exchanged ? others : plan::View{}, dresult, D,
               s.row, s.rows);
    layers_.linear_backward_input(attn + "/proj" + s.name, proj_, dresult.slice(s.row * D, s.rows * D),
                                  d_o.slice(s.row * width_, s.rows * width_), s.rows);
    if (s.row + s.rows == R) layers_.linear_backward_weight(attn + "/proj", proj_, o_, dresult, R);
    attend_backward(s, d_o, dqkv_);
  }
  if (bias_) bias_->backward();
  b_.emit<plan::OpKind::column_sum>(attn + "/qkv/backward_bias",
                                    {.rows = R, .cols = 3 * width_, .accumulate = e_.accumulates()}, {dqkv_},
                                    {b_.grad(qkv_.bias)});
  const plan::View dwindows = b_.scratch(path_ + ".dwindows", e_.act, R * D);
  plan::View returned = order.own == R ? order.give(attn + "/windows/backward", dwindows, D) : plan::View{};
  for (const Share& s : shares_exchanged_first()) {
    const plan::View part = dwindows.slice(s.row * D, s.rows * D);
    layers_.linear_backward_input(attn + "/qkv" + s.name, qkv_,
                                  dqkv_.slice(3 * s.row * width_, 3 * s.rows * width_), part, s.rows);
    layers_.result(attn + "/qkv" + s.name + "/backward_input", part);
    if (s.exchanged) returned = order.give(attn + "/windows/backward", dwindows, D);
  }
  const plan::View dh = onto ? onto : b_.scratch(path_ + ".windows.dh", e_.act, order.outside * D);
  order.back(attn + "/windows/backward", onto, dwindows, dh, D, returned);
  return dh;
}

void WindowAttention::backward_weight() {
  layers_.linear_backward_weight(path_ + "/attn/qkv", qkv_, windowed_, dqkv_, windows_.order.inside);
}

}  // namespace isobar::nets
