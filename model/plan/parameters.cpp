#include "model/plan/parameters.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "model/plan/ops/operands.h"
#include "model/plan/parameter_groups.h"

namespace isobar::plan {
namespace {
constexpr int64_t kShareAlign = 16;  // elements of a share: 64 bytes in f32
}

// ---- declaration ----

void Parameters::section(const Section& s) {
  close_unit();
  section_ = s;
  b_.pad_params(kShareAlign);
}

void Parameters::part(int index) {
  const bool full = open_ && b_.params_end() - units_.back().begin >= policy_.bucket;
  const bool communicates = section_.group >= 0;
  const bool cut = (communicates || policy_.offload_params) && (full || policy_.zero == 3);
  if (open_ && (alone_ || cut || (policy_.offload && full))) close_unit();
  if (open_) return;
  alone_ = false;
  Unit u{section_, index, b_.params_end()};
  if (communicates) {
    const std::vector<int>& ranks = b_.plan.groups[section_.group].ranks;
    u.ranks = static_cast<int64_t>(ranks.size());
    u.me = std::find(ranks.begin(), ranks.end(), b_.plan.rank) - ranks.begin();
  }
  units_.push_back(std::move(u));
  open_ = true;
}

void Parameters::alone(int index, bool counted) {
  close_unit();
  part(index);
  alone_ = true;
  units_.back().section.counted = units_.back().section.counted && counted;
}

void Parameters::close_unit() {
  if (!open_) return;
  open_ = false;
  Unit& u = units_.back();
  b_.pad_params(kShareAlign);
  if (sharded(u)) b_.pad_params(kShareAlign * u.ranks, u.begin);
  u.end = b_.params_end();
  if (u.size() == 0)
    units_.pop_back();
  else
    allot(u);
}

void Parameters::allot(Unit& u) {
  const auto take = [&](int64_t& next, bool whole) {
    const int64_t at = next;
    next += whole ? u.size() : u.share();
    return at;
  };
  if (!half(u)) u.params = take(params_, whole_params(u));
  if (copied(u)) u.params16 = take(params16_, whole_params16(u));
  if (u.section.frozen) return;
  u.grads = take(grads_, whole_grads(u));
  u.moments = take(moments_, !sharded(u));
}

void Parameters::end() {
  close_unit();
  Plan& plan = b_.plan;
  const auto place = [&](BufferKind kind) { return policy_.offload_params ? BufferKind::host : kind; };
  plan.params_all = b_.persistent("params", place(BufferKind::params), DType::f32, params_);
  plan.grads_all = b_.persistent("grads", BufferKind::grads, policy_.grads, grads_);
  const BufferKind home = policy_.offload ? BufferKind::host : BufferKind::adam;
  plan.adam_m = b_.persistent("adam.m", home, DType::f32, moments_);
  if (!policy_.sgd()) plan.adam_v = b_.persistent("adam.v", home, DType::f32, moments_);
  if (policy_.ema > 0) plan.ema_all = b_.persistent("ema", home, DType::f32, moments_);
  if (params16_ > 0)
    plan.params16_all = b_.persistent("params16", place(BufferKind::params16), policy_.act, params16_);
  for (const Unit& u : units_) {
    if (whole_params(u) && !half(u) && !visits(u))
      b_.home(Use::vector, u.begin, plan.params_all.slice(u.params, u.size()));
    if (copied(u) && whole_params16(u) && !visits(u))
      b_.home(Use::matrix, u.begin, plan.params16_all.slice(u.params16, u.size()));
    if (u.section.frozen)
      b_.freeze(u.begin, u.size());
    else if (ops_accumulate())
      b_.home(Use::gradient, u.begin, plan.grads_all.slice(u.grads, u.size()));
    const int64_t first = sharded(u) ? u.me * u.share() : 0;
    const bool whole = half(u) ? whole_params16(u) : whole_params(u);
    const int64_t at = (half(u) ? u.params16 : u.params) + (whole ? first : 0);
    plan.shards.push_back(
        {u.begin + first, sharded(u) ? u.share() : u.size(), at, u.section.frozen ? -1 : u.moments});
  }
  find_gaps();
}

void Parameters::find_gaps() {
  for (Unit& u : units_) {
    int64_t at = u.begin;
    const auto until = [&](int64_t next) {
      if (next > at) u.gaps.push_back({-1, at - u.begin, next - at});
    };
    for (const Param& p : b_.plan.params) {  // in order of their offsets
      if (p.offset < u.begin || p.offset >= u.end) continue;
      until(p.offset);
      at = p.offset + p.count;
    }
    until(u.end);
  }
}

// This rank's share: the n-th part of a view that holds all of it (`whole`), or of one that holds only the
// share.
View Parameters::share(const Unit& u, const View& all, int64_t at, bool whole) const {
  if (!sharded(u)) return all.slice(at, u.size());
  return all.slice(at + (whole ? u.me * u.share() : 0), u.share());
}

std::string Parameters::name(const char* what, const Unit& u) const {
  return what + ("/" + b_.plan.groups[u.section.group].name) + "/bucket" + std::to_string(u.begin);
}

std::string Parameters::bucket_of(const Unit& u) {
  return "grads/bucket" + std::to_string(u.begin);
}

// ---- inside a routine that runs a chunk ----

void Parameters::forward(int chunk) {
  chunk_ = chunk;
  direction_ = 1;
  here_.assign(units_.size(), false);
  for (const Unit& u : units_) {
    if ((!whole_params(u) || visits(u)) && !copied(u)) b_.no_home(Use::vector, u.begin);
    if (copied(u) && (!whole_params16(u) || visits(u))) b_.no_home(Use::matrix, u.begin);
  }
}

void Parameters::backward(int chunk, bool first, bool last) {
  forward(chunk);
  const InPart unit(b_, -1);
  direction_ = -1;
  first_ = first;
  last_ = last;
  reduced_.assign(units_.size(), false);
  raw_.assign(units_.size(), View{});
  arrived_.assign(units_.size(), View{});
  if (ops_accumulate()) return;
  for (size_t i = 0; i < units_.size(); ++i) {
    const Unit& u = units_[i];
    if (u.section.chunk != chunk_ || u.section.frozen) continue;
    const bool direct = whole_grads(u) && first && policy_.grads == DType::f32;
    if (!direct) raw_[i] = b_.scratch("grads" + std::to_string(u.begin), DType::f32, u.size());
    b_.home(Use::gradient, u.begin, direct ? b_.plan.grads_all.slice(u.grads, u.size()) : raw_[i]);
  }
}

void Parameters::need(int part) {
  gather(part);
  if (policy_.overlap) gather(part + direction_);
}

void Parameters::gather(int part) {
  const InPart unit(b_, -1);
  for (size_t i = 0; i < units_.size(); ++i) {
    const Unit& u = units_[i];
    if (!visits(u) || u.section.chunk != chunk_ || u.first_part != part || here_[i]) continue;
    here_[i] = true;
    View own = copied(u) ? share(u, b_.plan.params16_all, u.params16, false)
                         : share(u, b_.plan.params_all, u.params, false);
    if (policy_.offload_params) own = brought("params/bucket" + std::to_string(u.begin), own);
    if (!sharded(u)) {
      b_.home(copied(u) ? Use::matrix : Use::vector, u.begin, own);
      continue;
    }
    const View all =
        b_.scratch("params" + std::to_string(u.begin), copied(u) ? policy_.act : DType::f32, u.size());
    b_.emit<OpKind::all_gather>(name("params", u) + "/all_gather", {.group = u.section.group}, {own}, {all},
                                Lane::dp);
    b_.home(copied(u) ? Use::matrix : Use::vector, u.begin, all);
  }
}

// Loads from host memory into scratch
View Parameters::brought(const std::string& path, const View& from) {
  const View to = b_.scratch(path, b_.plan.buffers[from.buffer].dtype, from.count);
  transfer(path + "/load", from, to, Lane::h2d);
  return to;
}

// Biases are not read in the backward pass: drop their gathers and host loads.
void Parameters::drop_unread_gathers() {
  std::vector<Op>& ops = b_.plan.ops;
  for (const Lane lane : {Lane::dp, Lane::h2d}) {
    const auto begin = ops.begin() + b_.plan.routines.back().first;
    const auto brings = [&](const Op& op) {
      return op.lane == lane && (op.kind == OpKind::all_gather || op.kind == OpKind::copy);
    };
    const auto brought = [](const Op& op) {
      return op.kind == OpKind::copy ? out<OpKind::copy>(op, "y") : out<OpKind::all_gather>(op, "x");
    };
    if (std::none_of(begin, ops.end(), brings)) continue;
    std::vector<bool> read(b_.plan.buffers.size());
    for (auto op = begin; op != ops.end(); ++op)
      for (const View& v : op->reads)
        if (v) read[v.buffer] = true;
    ops.erase(std::remove_if(begin, ops.end(),
                             [&](const Op& op) { return brings(op) && !read[brought(op).buffer]; }),
              ops.end());
  }
}

void Parameters::final(int part) {
  if (!policy_.overlap) return;
  const InPart unit(b_, -1);
  for (size_t i = units_.size(); i-- > 0;)
    if (units_[i].section.chunk == chunk_ && units_[i].first_part >= part) reduce(i, View{});
}

void Parameters::finish(const View& last) {
  const InPart unit(b_, -1);
  for (size_t i = units_.size(); i-- > 0;)
    if (units_[i].section.chunk == chunk_) reduce(i, policy_.overlap ? View{} : last);
  for (size_t i = units_.size(); i-- > 0;) settle(i);
  drop_unread_gathers();
}

// `after`: an op that also reads it cannot begin under backward.
void Parameters::reduce(size_t index, const View& after) {
  const Unit& u = units_[index];
  if (reduced_[index] || u.section.frozen) return;
  reduced_[index] = true;
  const std::string bucket = bucket_of(u);
  const View raw = raw_[index], kept = share(u, b_.plan.grads_all, u.grads, whole_grads(u));
  const auto communicate = [&](OpKind kind, const View& from, const View& to) {
    std::vector<View> reads = {from};
    if (after) reads.push_back(after);
    const char* what = kind == OpKind::all_reduce ? "/all_reduce" : "/reduce_scatter";
    b_.emit(kind, name("grads", u) + what, TransferAttrs{.group = u.section.group}, std::move(reads), {to},
            Lane::dp);
  };
  if (raw)
    for (size_t g = 0; g < u.gaps.size(); ++g)
      b_.emit<OpKind::zero>(bucket + "/gap" + std::to_string(g), {.count = u.gaps[g].count}, {},
                            {raw.slice(u.gaps[g].offset, u.gaps[g].count)});
  if (whole_grads(u)) {
    const View all = b_.plan.grads_all.slice(u.grads, u.size());
    if (raw) bring(bucket, raw, all, !first_);
    if (last_ && u.ranks > 1)
      communicate(sharded(u) ? OpKind::reduce_scatter : OpKind::all_reduce, all, kept);
    return;
  }
  View leaving = raw;
  if (policy_.grads != DType::f32) {
    leaving = b_.scratch("grads" + std::to_string(u.begin) + ".16", policy_.grads, u.size());
    bring(bucket, raw, leaving, false);
  }
  arrived_[index] = leaving.slice(u.me * u.share(), u.share());
  communicate(OpKind::reduce_scatter, leaving, arrived_[index]);
  const bool neighbours = index + 1 < units_.size() && units_[index + 1].section == u.section;
  if (neighbours) settle(index + 1);
}

// Adds the reduced gradients to the kept share. Called when the section's next unit has been sent, so that
// the reduction hides under the backward pass.
void Parameters::settle(size_t index) {
  const View arrived = std::exchange(arrived_[index], View{});
  if (!arrived) return;
  const Unit& u = units_[index];
  bring(bucket_of(u), arrived, share(u, b_.plan.grads_all, u.grads, false), !first_);
}

void Parameters::bring(const std::string& bucket, const View& from, const View& to, bool accumulate) {
  const bool same = b_.plan.buffers[from.buffer].dtype == b_.plan.buffers[to.buffer].dtype;
  if (same && !accumulate) return transfer(bucket + "/copy", from, to, Lane::compute);
  b_.emit<OpKind::cast>(bucket + (accumulate ? "/add" : "/cast"),
                        {.count = from.count, .accumulate = accumulate}, {from}, {to});
}

// ---- routines of their own ----

std::vector<Parameters::Run> Parameters::runs() const {
  const Plan& plan = b_.plan;
  std::vector<Run> out;
  for (const Unit& u : units_) {
    if (u.section.frozen) continue;
    const Run r{"/bucket" + std::to_string(u.begin),
                &u,
                u.section.counted,
                u.begin + (sharded(u) ? u.me * u.share() : 0),
                share(u, plan.params_all, u.params, whole_params(u)),
                copied(u) ? share(u, plan.params16_all, u.params16, whole_params16(u)) : View{},
                share(u, plan.grads_all, u.grads, whole_grads(u)),
                share(u, plan.adam_m, u.moments, false),
                policy_.sgd() ? View{} : share(u, plan.adam_v, u.moments, false),
                policy_.ema > 0 ? share(u, plan.ema_all, u.moments, false) : View{}};
    const Unit* before = out.empty() ? nullptr : units_.data() + (&u - units_.data()) - 1;
    if (before && !before->section.frozen && !policy_.offload && !policy_.offload_params &&
        !sharded(*before) && !sharded(u) && before->section.counted == r.counted &&
        copied(*before) == copied(u)) {
      Run& last = out.back();
      last.unit = nullptr;
      for (View Run::*v : {&Run::param, &Run::param16, &Run::grad, &Run::m, &Run::v, &Run::ema})
        if (last.*v) (last.*v).count += (r.*v).count;
    } else {
      out.push_back(r);
    }
  }
  if (out.size() == 1) out[0].name.clear();
  return out;
}

// Gathers the parameters that other ranks have updated.
void Parameters::spread(const Unit& u) {
  if (!sharded(u) || policy_.zero == 3) return;
  const View all = copied(u) ? b_.plan.params16_all.slice(u.params16, u.size())
                             : b_.plan.params_all.slice(u.params, u.size());
  b_.emit<OpKind::all_gather>(name("params", u) + "/all_gather", {.group = u.section.group},
                              {all.slice(u.me * u.share(), u.share())}, {all}, Lane::dp);
}

void Parameters::copies(const std::string& path) {
  for (const Run& r : runs()) {
    if (r.param16 && policy_.offload_params) {
      const View master = brought(path + r.name, r.param);
      const View half = b_.scratch(path + r.name + ".16", policy_.act, r.param16.count);
      b_.emit<OpKind::cast>(path + r.name + "/cast", {.count = r.param.count}, {master}, {half});
      transfer(path + r.name + "/store", half, r.param16, Lane::d2h);
    } else if (r.param16) {
      b_.emit<OpKind::cast>(path + r.name + "/cast", {.count = r.param.count}, {r.param}, {r.param16});
    }
    if (r.unit) spread(*r.unit);
  }
}

View Parameters::kept_gradient(const View& param) const {
  for (const Unit& u : units_)
    if (u.begin <= param.offset && param.offset < u.end)
      return share(u, b_.plan.grads_all, u.grads, whole_grads(u));
  throw std::logic_error("a view that is no parameter");
}

void Parameters::squared_norm(const View& sum) {
  bool first = true;
  for (const Run& r : runs()) {
    if (!r.counted) continue;
    b_.emit<OpKind::squared_sum>("optimizer/grad_norm" + r.name,
                                 {.count = r.grad.count, .accumulate = !first}, {r.grad}, {sum});
    first = false;
  }
  if (!first) return;
  // All that this rank trains is frozen, or is a replica counted on another rank.
  b_.emit<OpKind::zero>("optimizer/grad_norm/none", {.count = 1}, {}, {sum});
}

void Parameters::transfer(const std::string& path, const View& from, const View& to, Lane lane) {
  b_.emit<OpKind::copy>(path, {.run = from.count}, {from}, {to}, lane);
}

// Absent if all parameters use the specification's rate and decay.
View Parameters::groups_of(const Run& r) const {
  const std::vector<ParameterGroup> groups = parameter_groups(b_.plan.params, r.flat, r.param.count);
  if (groups.size() == 1 && groups[0].lr == 1 && groups[0].decay == 1) return {};
  return b_.constant(
      "optimizer/groups" + r.name, DType::i32,
      static_cast<int64_t>(groups.size() * sizeof(ParameterGroup) / size_of(DType::i32)),
      [groups](void* to) { std::memcpy(to, groups.data(), groups.size() * sizeof(ParameterGroup)); });
}

void Parameters::update(const View& scalars, const View& norm2) {
  std::vector<Run> all = runs();
  const std::vector<Run> kept = all;  // buffers that hold the moments
  std::vector<View Run::*> visitors;  // offloaded: loaded for an update and stored again
  if (policy_.offload_params) visitors.push_back(&Run::param);
  if (policy_.offload) visitors.insert(visitors.end(), {&Run::m, &Run::v, &Run::ema});
  const auto path = [&](size_t i, View Run::*v) {
    return "optimizer/" + b_.plan.buffers[(kept[i].*v).buffer].name + kept[i].name;
  };
  const auto load = [&](size_t i) {
    if (i >= all.size()) return;
    for (View Run::*v : visitors)
      if (kept[i].*v) all[i].*v = brought(path(i, v), kept[i].*v);
    // Written here and then stored
    if (policy_.offload_params && kept[i].param16)
      all[i].param16 = b_.scratch(path(i, &Run::param16), policy_.act, kept[i].param16.count);
  };
  load(0);
  for (size_t i = 0; i < all.size(); ++i) {
    if (policy_.overlap) load(i + 1);
    const Run& r = all[i];
    std::vector<View> reads = {r.grad, scalars, norm2};
    if (const View groups = groups_of(r)) reads.push_back(groups);
    if (const auto* constants = std::get_if<SgdAttrs>(&policy_.optimizer)) {
      SgdAttrs a = *constants;
      a.count = r.grad.count;
      b_.emit<OpKind::sgd>("optimizer/sgd" + r.name, a, std::move(reads), {r.param, r.m, r.param16});
    } else {
      AdamAttrs a = std::get<AdamAttrs>(policy_.optimizer);
      a.count = r.grad.count;
      b_.emit<OpKind::adam>("optimizer/adam" + r.name, a, std::move(reads), {r.param, r.m, r.v, r.param16});
    }
    if (r.unit) spread(*r.unit);
    if (r.ema)
      b_.emit<OpKind::average>("optimizer/ema" + r.name, {.count = r.param.count, .rate = 1 - policy_.ema},
                               {r.param, scalars}, {r.ema});
    for (View Run::*v : visitors)
      if (kept[i].*v) transfer(path(i, v) + "/store", r.*v, kept[i].*v, Lane::d2h);
    if (policy_.offload_params && kept[i].param16)
      transfer(path(i, &Run::param16) + "/store", r.param16, kept[i].param16, Lane::d2h);
    if (!policy_.overlap) load(i + 1);
  }
}

void Parameters::exchange(const std::string& path) {
  for (const Run& r : runs()) {
    View average = r.ema, param = r.param;
    if (policy_.offload) average = brought(path + r.name + "/ema", r.ema);
    if (policy_.offload_params) param = brought(path + r.name + "/params", r.param);
    b_.emit<OpKind::swap>(path + r.name, {.count = r.param.count}, {param, average}, {param, average});
    if (policy_.offload) transfer(path + r.name + "/ema/store", average, r.ema, Lane::d2h);
    if (policy_.offload_params) transfer(path + r.name + "/params/store", param, r.param, Lane::d2h);
  }
  copies(path);
}

}  // namespace isobar::plan
