#include "model/nets/experts.h"

#include <utility>
#include <vector>

#include "model/nets/declare.h"

namespace isobar {

Experts::Experts(Emission& e, const Sharding& at, std::string path, std::string name,
                 const ExpertsShape& shape, int64_t width)
    : path_(std::move(path)),
      name_(std::move(name)),
      e_(e),
      b_(e.b),
      at_(at),
      layers_(e, at),
      shape_(shape),
      width_(width),
      copies_(at.full_rows * shape.top) {}

void Experts::declare(Declare& d) {
  const int64_t D = width_, hidden = shape_.hidden;
  d.router(router_, name_ + ".router", D, shape_.experts);
  std::vector<Param> up, down;
  for (int64_t i = 0; i < shape_.experts; ++i) {
    const std::string name = name_ + ".experts." + std::to_string(i);
    up.push_back({name + ".gate.weight", {hidden, D}, Init::normal, kSigma, 0});
    up.push_back({name + ".up.weight", {hidden, D}, Init::normal, kSigma, 0});
    down.push_back({name + ".fc2.weight", {D, hidden}, Init::normal, kSigma, 1});
  }
  d.experts(up_, D, 2 * hidden, shape_.experts, up);
  d.experts(down_, hidden, D, shape_.experts, down);
}

RouteAttrs Experts::attrs() const {
  const int64_t sample = e_.spec.net.tokens();
  const auto samples = static_cast<double>(e_.spec.train.global_batch);
  const bool counts = at_.at.tp == 0;
  return {.rows = at_.full_rows,
          .cols = shape_.experts,
          .top = shape_.top,
          .normalised = shape_.normalised,
          .tokens = at_.tokens,
          .sample = sample,
          .balance = counts ? static_cast<float>(shape_.balance / samples) : 0,
          .z = counts ? static_cast<float>(shape_.z / (samples * static_cast<double>(sample))) : 0};
}

// ---- forward ----

void Experts::route(const std::string& pass, const View& h, bool keep) {
  const int64_t R = at_.full_rows, E = shape_.experts;
  const auto held = [&](const char* what, DType t, int64_t count) {
    return b_.saved_or_scratch(path_ + "." + what, t, count, keep);
  };
  logits_ = held("logits", DType::f32, R * E);
  layers_.linear_forward(path_ + "/router" + pass, router_, h, logits_, R, View{});
  order_ = held("order", DType::i32, copies_);
  place_ = held("place", DType::i32, copies_);
  chosen_ = held("chosen", DType::i32, copies_);
  weights_ = held("weights", DType::f32, copies_);
  lse_ = held("lse", DType::f32, R);
  sums_ = held("sums", DType::f32, 2 * at_.batch * E);
  up_.offsets = down_.offsets = held("offsets", DType::i32, E + 1);
  b_.emit<OpKind::route>(path_ + "/route" + pass, attrs(), {logits_},
                         {order_, place_, chosen_, up_.offsets, weights_, lse_, sums_});
  if (at_.cp_group >= 0)  // a sample's shares are those of all its tokens
    b_.emit<OpKind::all_reduce>(path_ + "/route" + pass + "/all_reduce", {.group = at_.cp_group}, {sums_},
                                {sums_}, Lane::cp);
}

void Experts::metrics(const std::string& pass) const {
  RouteAttrs a = attrs();
  a.balance = a.z = 0;
  a.weight =
      static_cast<float>(1.0 / static_cast<double>(e_.spec.train.global_batch * shape_.blocks * at_.cp));
  b_.emit<OpKind::router_metrics>(path_ + "/router_metrics" + pass, a, {sums_, b_.plan.scalars},
                                  {b_.plan.metrics.slice(1, 2)});
}

// The tokens' rows, copied in the order of experts
View Experts::copies(const std::string& path, const View& rows, const View& to) const {
  b_.emit<OpKind::dispatch>(path, {.rows = at_.full_rows, .cols = width_, .top = shape_.top}, {rows, order_},
                            {to});
  return to;
}

void Experts::forward(const std::string& pass, const View& h, const View& y, bool keep, bool result) {
  route(pass, h, keep);
  if (pass == "/forward") metrics(pass);
  const View x = copies(path_ + "/dispatch" + pass, h, b_.scratch(path_ + ".x", e_.act, copies_ * width_));
  u_ = b_.saved_or_scratch(path_ + ".experts.u", e_.act, copies_ * up_.out, keep);
  g_ = b_.saved_or_scratch(path_ + ".experts.g", e_.act, copies_ * down_.in, keep);
  layers_.linear_forward(path_ + "/experts/fc1" + pass, up_, x, u_, copies_, View{});
  b_.emit<OpKind::swiglu>(path_ + "/experts/swiglu" + pass, {.rows = copies_, .cols = down_.in},
                          {u_, weights_}, {g_});
  if (!result) return;
  const View o = b_.scratch(path_ + ".experts.o", e_.act, copies_ * width_);
  layers_.linear_forward(path_ + "/experts/fc2" + pass, down_, g_, o, copies_, View{});
  b_.emit<OpKind::combine>(path_ + "/combine" + pass,
                           {.rows = at_.full_rows, .cols = width_, .top = shape_.top}, {o, place_}, {y});
}

// ---- backward ----

void Experts::backward(const View& dy, const View& h, const View& own, const View& dh) {
  const int64_t R = at_.full_rows, D = width_;
  const std::string experts = path_ + "/experts";
  const View d_o =
      copies(path_ + "/combine/backward", dy, e_.operand(path_ + ".experts.do", e_.act, copies_ * D));
  const View dg = b_.scratch(path_ + ".experts.dg", e_.act, copies_ * down_.in);
  layers_.linear_backward_input(experts + "/fc2", down_, d_o, dg, copies_);
  layers_.linear_backward_weight(experts + "/fc2", down_, g_, d_o, copies_);
  const View du = e_.operand(path_ + ".experts.du", e_.act, copies_ * up_.out),
             dweights = b_.scratch(path_ + ".dweights", DType::f32, copies_);
  b_.emit<OpKind::swiglu_backward>(experts + "/swiglu/backward", {.rows = copies_, .cols = down_.in},
                                   {u_, dg, weights_}, {du, dweights});
  const View dx = b_.scratch(path_ + ".experts.dx", e_.act, copies_ * D);
  layers_.linear_backward_input(experts + "/fc1", up_, du, dx, copies_);
  const View x =
      copies(path_ + "/dispatch/recompute", h, e_.operand(path_ + ".experts.x", e_.act, copies_ * D));
  layers_.linear_backward_weight(experts + "/fc1", up_, x, du, copies_);
  b_.emit<OpKind::combine>(path_ + "/dispatch/backward", {.rows = R, .cols = D, .top = shape_.top},
                           {dx, place_}, {dh});
  const View dlogits = e_.operand(path_ + ".dlogits", e_.act, R * shape_.experts);
  b_.emit<OpKind::route_backward>(
      path_ + "/route/backward", attrs(),
      {logits_, lse_, chosen_, place_, weights_, dweights, sums_, b_.plan.scalars}, {dlogits});
  layers_.linear_backward_input(path_ + "/router", router_, dlogits, dh, R, true);
  layers_.linear_backward_weight(path_ + "/router", router_, own, dlogits, R);
}

}  // namespace isobar
