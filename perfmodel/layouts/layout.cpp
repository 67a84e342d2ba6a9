#include "perfmodel/layouts/layout.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "model/plan/layout.h"

namespace isobar::perf {

const std::vector<std::string>& rank_orders() {
  static const std::vector<std::string> orders = [] {
    std::vector<std::string> axes{"tp", "cp", "dp", "pp"}, out;
    std::vector<int> at{0, 1, 2, 3};
    do out.push_back(axes[at[0]] + "-" + axes[at[1]] + "-" + axes[at[2]] + "-" + axes[at[3]]);
    while (std::next_permutation(at.begin(), at.end()));
    return out;
  }();
  return orders;
}

Placements placements_of(const Layout& l, int64_t ranks_on_host) {
  static const auto axes = [] {  // of each order, as indices of tp, cp, dp, pp
    std::vector<std::array<int, 4>> out;
    std::array<int, 4> at{0, 1, 2, 3};
    do out.push_back(at);
    while (std::next_permutation(at.begin(), at.end()));
    return out;
  }();
  const std::array<double, 4> size{static_cast<double>(l.tp), static_cast<double>(l.cp),
                                   static_cast<double>(l.dp), static_cast<double>(l.pp)};
  std::array<double, 4> here{};
  double stride = 1;
  std::vector<std::pair<int64_t, int64_t>> data;  // sizes and strides of cp and dp, in their order
  for (int axis : axes[l.order]) {
    here[axis] = std::clamp(std::floor(static_cast<double>(ranks_on_host) / stride), 1.0, size[axis]);
    while (std::fmod(size[axis], here[axis]) != 0)
      --here[axis];  // so that a group fills all its hosts
                     // equally
    if (axis == 1 || axis == 2)
      data.emplace_back(static_cast<int64_t>(size[axis]), static_cast<int64_t>(stride));
    stride *= size[axis];
  }
  double owners = 0;  // of rank 0's experts on its host
  for (int64_t i = 0; i < l.ep; ++i) {
    const int64_t rank = i % data[0].first * data[0].second + i / data[0].first * data[1].second;
    owners += rank < ranks_on_host ? 1 : 0;
  }
  while (std::fmod(l.ep, owners) != 0) --owners;
  return {.tp = here[0], .cp = here[1], .dp = here[2], .pp = here[3], .ep = owners};
}

Layout layout_of(const RunSpec& s) {
  const auto i32 = [](int64_t v) { return static_cast<int32_t>(v); };
  Layout l{.dp = i32(s.layout.dp),
           .tp = i32(s.layout.tp),
           .cp = i32(s.layout.cp),
           .pp = i32(s.layout.pp),
           .vpp = i32(s.layout.vpp),
           .ep = i32(s.layout.ep),
           .micro_batch = i32(s.micro_batch()),
           .schedule = s.policy.schedule,
           .zero = static_cast<int8_t>(s.policy.zero),
           .sequence_parallel = s.policy.sequence_parallel && s.layout.tp > 1,
           .recompute = s.policy.recompute,
           .cp_kind = s.layout.cp > 1 ? s.policy.cp_kind : CpKind::allgather,
           .workers = i32(s.data.workers)};
  // Axes missing from the order have size 1 and come last.
  std::string order;
  for (const std::string& token : plan::order_tokens(s.layout, s.file))
    order += (order.empty() ? "" : "-") + token;
  for (const char* axis : {"tp", "cp", "dp", "pp"})
    if (order.find(axis) == std::string::npos) order += std::string(order.empty() ? "" : "-") + axis;
  const std::vector<std::string>& orders = rank_orders();
  l.order = static_cast<int8_t>(std::find(orders.begin(), orders.end(), order) - orders.begin());
  return l;
}

RunSpec with_layout(RunSpec s, const Layout& l) {
  if (static_cast<int64_t>(s.layout.stages.size()) != int64_t{l.pp} * l.vpp) s.layout.stages.clear();
  s.layout = {.dp = l.dp,
              .tp = l.tp,
              .cp = l.cp,
              .pp = l.pp,
              .vpp = l.vpp,
              .ep = l.ep,
              .stages = std::move(s.layout.stages),
              .order = rank_orders()[l.order]};
  s.policy.micro_batch = l.micro_batch;
  s.policy.schedule = l.schedule;
  s.policy.zero = static_cast<unsigned char>(l.zero);
  s.policy.offload_parameters = s.policy.offload_parameters && l.zero == 3;
  s.policy.sequence_parallel = l.sequence_parallel;
  s.policy.set_recompute(l.recompute);
  s.policy.cp_kind = l.cp_kind;
  if (l.workers >= 0) s.data.workers = l.workers;
  return s;
}

std::string text_of(const Layout& l) {
  std::string s = "DP" + std::to_string(l.dp);
  const auto axis = [&s](const char* name, int32_t n) {
    if (n > 1) s += name + std::to_string(n);
  };
  axis(" TP", l.tp);
  if (l.sequence_parallel) s += "+SP";
  axis(" CP", l.cp);
  if (l.cp > 1 && l.cp_kind != CpKind::allgather) s += " " + name_of(l.cp_kind);
  axis(" EP", l.ep);
  axis(" PP", l.pp);
  axis(" VPP", l.vpp);
  if (l.pp > 1 && (l.schedule == PipelineSchedule::zb_h1 || l.schedule == PipelineSchedule::gpipe))
    s += " " + name_of(l.schedule);
  s += " MBS" + std::to_string(l.micro_batch);
  if (l.zero > 0) s += " ZeRO" + std::to_string(l.zero);
  if (l.recompute != Recompute::none) s += " recompute " + name_of(l.recompute);
  if (l.order > 0) s += " order " + rank_orders()[l.order];
  if (l.workers > 0) s += ", " + std::to_string(l.workers) + (l.workers == 1 ? " loader" : " loaders");
  return s;
}

std::string layout_text(const RunSpec& spec) {
  const double layers = spec.policy.offloaded_layers;
  return text_of(layout_of(spec)) + (layers > 0 ? printed(" offload %.4g", layers) : "");
}

}  // namespace isobar::perf
