#include "model/nets/transformer/experts.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "model/base/net_specs/parts/experts.h"
#include "model/nets/declare.h"

namespace isobar::nets {
namespace {

constexpr int64_t kMetrics = 4;  // of a net with experts: loss, imbalance, balance, dropped

// A token has at most all experts of a rank, and each of them takes its capacity of a sample.
int64_t most_received(const Sharding& at, const ExpertsShape& shape) {
  const int64_t most_tokens = *std::max_element(at.token_parts.begin(), at.token_parts.end()),
                held = shape.experts / at.ep;
  const int64_t of_expert = shape.capacity > 0 ? std::min(most_tokens, shape.capacity) : most_tokens;
  return at.ep * at.batch * std::min(most_tokens * std::min(shape.top, held), of_expert * held);
}

}  // namespace

Experts::Experts(Emission& e, const Sharding& at, std::string path, std::string name,
                 const ExpertsShape& shape, int64_t width, int64_t number)
    : path_(std::move(path)),
      name_(std::move(name)),
      e_(e),
      b_(e.b),
      at_(at),
      layers_(e, at),
      shape_(shape),
      width_(width),
      copies_(at.full_rows * shape.top),
      room_(at.ep > 1 ? most_received(at, shape) : copies_),
      number_(number),
      busiest_(std::clamp(busiest_share(shape.imbalance, shape.experts, at.ep), 1.0,
                          std::max(1.0, static_cast<double>(room_) / static_cast<double>(copies_)))) {
  up_.busiest = down_.busiest = busiest_;
}

void Experts::declare(Declare& d) {
  const int64_t D = width_, hidden = shape_.hidden;
  d.router(router_, name_ + ".router", D, shape_.experts);
  if (shape_.sigmoid) d.state(bias_, {name_ + ".router.bias", {shape_.experts}, plan::Init::zero});
  const int64_t named = e_.use == plan::PlanUse::prices ? 1 : shape_.experts;
  for (int64_t i = up_params_.empty() ? 0 : named; i < named; ++i) {
    const std::string name = name_ + ".experts." + std::to_string(i);
    up_params_.push_back({name + ".gate.weight", {hidden, D}, plan::Init::normal, kSigma, 0});
    up_params_.push_back({name + ".up.weight", {hidden, D}, plan::Init::normal, kSigma, 0});
    down_params_.push_back({name + ".fc2.weight", {D, hidden}, plan::Init::normal, kSigma, 1});
  }
  d.experts(up_, D, 2 * hidden, shape_.experts, up_params_, named == 1);
  d.experts(down_, hidden, D, shape_.experts, down_params_, named == 1);
}

plan::RouteAttrs Experts::attrs() const {
  const int64_t sample = e_.spec.net.tokens();
  const auto samples = static_cast<double>(e_.spec.train.global_batch);
  const bool counts = at_.at.tp == 0;
  return {.rows = at_.full_rows,
          .cols = shape_.experts,
          .top = shape_.top,
          .normalised = shape_.normalised,
          .factor = shape_.factor,
          .sigmoid = shape_.sigmoid,
          .groups = shape_.groups,
          .top_groups = shape_.top_groups,
          .tokens = at_.tokens,
          .sample = sample,
          .balance = counts ? static_cast<float>(shape_.balance / samples) : 0,
          .z = counts ? static_cast<float>(shape_.z / (samples * static_cast<double>(sample))) : 0};
}

// ---- forward ----

void Experts::route(const std::string& pass, const plan::View& h, bool keep) {
  const int64_t R = at_.full_rows, E = shape_.experts;
  const auto held = [&](const char* what, DType t, int64_t count) {
    return b_.saved_or_scratch(path_ + "." + what, t, count, keep);
  };
  logits_ = held("logits", DType::f32, R * E);
  layers_.linear_forward(path_ + "/router" + pass, router_, h, logits_, R, plan::View{});
  order_ = held("order", DType::i32, copies_);
  place_ = held("place", DType::i32, copies_);
  chosen_ = held("chosen", DType::i32, copies_);
  weights_ = held("weights", DType::f32, copies_);
  lse_ = held("lse", DType::f32, R);
  sums_ = held("sums", DType::f32, 2 * at_.batch * E);
  const plan::View all = held("offsets", DType::i32, at_.ep * (E + 1)),
                   own = all.slice(at_.owner * (E + 1), E + 1);
  const std::vector<plan::View> to{order_, place_, chosen_, own, weights_, lse_, sums_};
  plan::RouteAttrs a = attrs();
  plan::View counts;
  if (limited() && at_.cp_group >= 0) {  // once more with the counts of earlier ranks
    b_.emit<plan::OpKind::route>(path_ + "/route/counts" + pass, a, {logits_, bias_, plan::View{}}, to);
    counts = counts_of_ranks(pass, sums_);
    a.ranks_before = at_.at.cp;
  }
  a.capacity = shape_.capacity;
  b_.emit<plan::OpKind::route>(path_ + "/route" + pass, a, {logits_, bias_, counts}, to);
  own_offsets_ = up_.offsets = down_.offsets = own;
  if (divided()) share_offsets(pass, all, keep);
  if (at_.cp_group >= 0)  // a sample's shares are those of all its tokens
    b_.emit<plan::OpKind::all_reduce>(path_ + "/route" + pass + "/all_reduce", {.group = at_.cp_group},
                                      {sums_}, {sums_}, plan::Lane::cp);
}

plan::View Experts::counts_of_ranks(const std::string& pass, const plan::View& sums) const {
  const plan::View all = b_.scratch(path_ + ".counts", DType::f32, at_.cp * sums.count);
  b_.emit<plan::OpKind::all_gather>(path_ + "/route/counts" + pass + "/all_gather", {.group = at_.cp_group},
                                    {sums}, {all}, plan::Lane::cp);
  return all;
}

// Each rank's offsets on all ranks, and from them those of this rank's experts among what it receives
void Experts::share_offsets(const std::string& pass, const plan::View& all, bool keep) {
  const int64_t E = shape_.experts, held = E / at_.ep;
  offsets_ = all;
  b_.emit<plan::OpKind::all_gather>(path_ + "/offsets" + pass + "/all_gather", {.group = at_.ep_group},
                                    {up_.offsets}, {all}, plan::Lane::ep);
  up_.offsets = down_.offsets = b_.saved_or_scratch(path_ + ".received.offsets", DType::i32, held + 1, keep);
  b_.emit<plan::OpKind::expert_offsets>(
      path_ + "/offsets" + pass, {.ranks = at_.ep, .experts = E, .first = at_.owner * held, .held = held},
      {all}, {up_.offsets});
}

void Experts::metrics(const std::string& pass) const {
  plan::RouteAttrs a = attrs();
  a.balance = a.z = 0;
  a.capacity = shape_.capacity;
  a.weight =
      static_cast<float>(1.0 / static_cast<double>(e_.spec.train.global_batch * shape_.blocks * at_.cp));
  b_.emit<plan::OpKind::router_metrics>(
      path_ + "/router_metrics" + pass, a, {sums_, b_.plan.scalars},
      {b_.plan.metrics.slice(1, kMetrics - 1), at_.at.cp == 0 ? load() : plan::View{}});
}

// Copies of each expert, behind the metrics and summed with them; a sample's counts are those of all its
// tokens, so that one rank of context parallelism tells them.
plan::View Experts::load() const {
  if (shape_.bias_rate == 0) return {};
  return b_.plan.metrics.slice(kMetrics + number_ * shape_.experts, shape_.experts);
}

void Experts::shift_bias() {
  if (!bias_ || shape_.bias_rate == 0) return;
  b_.emit<plan::OpKind::shift_bias>(
      path_ + "/shift_bias",
      {.rows = 1, .cols = shape_.experts, .weight = static_cast<float>(shape_.bias_rate)}, {bias_, load()},
      {bias_});
}

// The tokens' rows, copied in the order of experts
plan::View Experts::copies(const std::string& path, const plan::View& rows, const plan::View& to) const {
  b_.emit<plan::OpKind::dispatch>(path, {.rows = at_.full_rows, .cols = width_, .top = shape_.top},
                                  {rows, order_}, {to});
  return to;
}

// A buffer of rows that are received, of which prices take those of the busiest rank
plan::View Experts::received(const plan::View& room) const {
  b_.plan.buffers[room.buffer].filled =
      std::min(1.0, busiest_ * static_cast<double>(copies_) / static_cast<double>(room_));
  return room;
}

int64_t Experts::expected_rows() const {
  return std::llround(busiest_ * static_cast<double>(copies_));
}

plan::View Experts::held(const char* what, DType t, int64_t cols, bool keep) const {
  return received(b_.saved_or_scratch(path_ + what, t, room_ * cols, keep));
}

void Experts::send(const std::string& path, const plan::View& from, const plan::View& to, bool back) const {
  plan::TransferAttrs a{.group = at_.ep_group};
  a.width = to.count / (back ? copies_ : room_);
  a.back = back;
  b_.emit<plan::OpKind::all_to_all>(path + "/all_to_all", a, {from, offsets_}, {to}, plan::Lane::ep);
}

// Copies of tokens' rows, on the ranks of their experts
plan::View Experts::to_experts(const std::string& path, const std::string& name, const plan::View& rows,
                               const plan::View& to) const {
  if (!divided()) return copies(path, rows, to);
  send(path, copies(path, rows, b_.scratch(name + ".leaving", e_.act, copies_ * width_)), received(to),
       false);
  return to;
}

// Rows of copies, on the ranks of their tokens
plan::View Experts::to_tokens(const std::string& path, const std::string& name,
                              const plan::View& rows) const {
  if (!divided()) return rows;
  const plan::View to = b_.scratch(name + ".returned", e_.act, copies_ * width_);
  send(path, rows, to, true);
  return to;
}

void Experts::dispatch(const std::string& pass, const plan::View& h, bool keep) {
  route(pass, h, keep);
  if (pass == "/forward") metrics(pass);
  // Copies of this rank's tokens are made again for backward; those of other ranks' are kept.
  x_ = divided() ? held(".experts.x", e_.act, width_, keep)
                 : b_.scratch(path_ + ".x", e_.act, copies_ * width_);
  scale_ = divided() ? held(".experts.weights", DType::f32, 1, keep) : weights_;
  to_experts(path_ + "/dispatch" + pass, path_ + ".x", h, x_);
  if (divided()) send(path_ + "/weights" + pass, weights_, scale_, false);
}

void Experts::forward(const std::string& pass, const plan::View& y, bool keep, bool result) {
  u_ = held(".experts.u", e_.act, up_.out, keep);
  g_ = held(".experts.g", e_.act, down_.in, keep);
  layers_.linear_forward(path_ + "/experts/fc1" + pass, up_, x_, u_, copies_, plan::View{});
  b_.emit<plan::OpKind::swiglu>(path_ + "/experts/swiglu" + pass, {.rows = expected_rows(), .cols = down_.in},
                                {u_, scale_, rows()}, {g_});
  if (!result) return;
  const plan::View o = received(b_.scratch(path_ + ".experts.o", e_.act, room_ * width_));
  layers_.linear_forward(path_ + "/experts/fc2" + pass, down_, g_, o, copies_, plan::View{});
  b_.emit<plan::OpKind::combine>(
      path_ + "/combine" + pass, {.rows = at_.full_rows, .cols = width_, .top = shape_.top},
      {to_tokens(path_ + "/combine" + pass, path_ + ".experts.o", o), place_, taken()}, {y});
}

// ---- backward ----

void Experts::dispatch_gradient(const plan::View& dy) {
  do_ = to_experts(path_ + "/combine/backward", path_ + ".experts.do", dy,
                   e_.operand(path_ + ".experts.do", e_.act, room_ * width_));
}

void Experts::backward(const plan::View& h, const plan::View& own, const plan::View& dh) {
  const int64_t R = at_.full_rows, D = width_;
  const std::string experts = path_ + "/experts";
  const plan::View dg = received(b_.scratch(path_ + ".experts.dg", e_.act, room_ * down_.in));
  layers_.linear_backward_input(experts + "/fc2", down_, do_, dg, copies_);
  layers_.linear_backward_weight(experts + "/fc2", down_, g_, do_, copies_);
  const plan::View du = received(e_.operand(path_ + ".experts.du", e_.act, room_ * up_.out)),
                   dscale = received(b_.scratch(path_ + ".experts.dweights", DType::f32, room_));
  b_.emit<plan::OpKind::swiglu_backward>(experts + "/swiglu/backward",
                                         {.rows = expected_rows(), .cols = down_.in},
                                         {u_, dg, scale_, rows()}, {du, dscale});
  const plan::View dx = received(b_.scratch(path_ + ".experts.dx", e_.act, room_ * D));
  layers_.linear_backward_input(experts + "/fc1", up_, du, dx, copies_);
  const plan::View back = to_tokens(path_ + "/dispatch/backward", path_ + ".experts.dx", dx);
  plan::View dweights = dscale;
  if (divided()) {
    dweights = b_.scratch(path_ + ".dweights", DType::f32, copies_);
    send(path_ + "/weights/backward", dscale, dweights, true);
  }
  const plan::View x = divided() ? x_
                                 : copies(path_ + "/dispatch/recompute", h,
                                          e_.operand(path_ + ".experts.x", e_.act, copies_ * D));
  layers_.linear_backward_weight(experts + "/fc1", up_, x, du, copies_);
  b_.emit<plan::OpKind::combine>(path_ + "/dispatch/backward", {.rows = R, .cols = D, .top = shape_.top},
                                 {back, place_, taken()}, {dh});
  const plan::View dlogits = e_.operand(path_ + ".dlogits", e_.act, R * shape_.experts);
  b_.emit<plan::OpKind::route_backward>(
      path_ + "/route/backward", attrs(),
      {logits_, lse_, chosen_, place_, weights_, dweights, sums_, b_.plan.scalars, taken()}, {dlogits});
  layers_.linear_backward_input(path_ + "/router", router_, dlogits, dh, R, true);
  layers_.linear_backward_weight(path_ + "/router", router_, own, dlogits, R);
}

}  // namespace isobar::nets
