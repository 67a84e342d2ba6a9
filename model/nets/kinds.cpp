// The kinds of nets behind one interface; each has files of its own.
#include <algorithm>

#include "model/nets/kinds.h"
#include "model/nets/layout/balance.h"
#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"
#include "model/nets/parts.h"
#include "model/nets/step.h"
#include "model/plan/ops/work.h"

namespace isobar::nets {
namespace {

/// Equal blocks are cut to two; nets of few parts lose none.
template <class Spec>
Spec distinct_parts(Spec n) {
  if constexpr (requires { n.depth; }) n.depth = std::min<int64_t>(n.depth, 2);
  return n;
}

/// Kinds that are published in no other form
template <class Net>
PublishedForm published_form(const Net&, const std::vector<plan::Tensor>&) {
  return {};
}

}  // namespace

std::vector<plan::Part> parts_of(const NetSpec& net) {
  return net.visit([](const auto& n) { return parts_of(n); });
}

NetSpec distinct_parts(NetSpec net) {
  return net.visit([](const auto& n) -> NetSpec { return distinct_parts(n); });
}

NetLimits limits_of(const NetSpec& net) {
  return net.visit([](const auto& n) { return limits_of(n); });
}

std::unique_ptr<Net> make_net(Emission& e, const Sharding& at) {
  return e.spec.net.visit([&](const auto& n) { return make_net(n, e, at); });
}

PublishedForm published_form(const NetSpec& net, const std::vector<plan::Tensor>& own) {
  return net.visit([&](const auto& n) { return published_form(n, own); });
}

// ---- cuts ----

namespace {

// The first part of each kind
std::vector<int32_t> firsts_of(const std::vector<plan::Part>& parts) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < static_cast<int32_t>(parts.size()); ++i)
    if (parts[i].same_as == i) out.push_back(i);
  return out;
}

// Matrix FLOPs of each part's forward pass, of one sample on one rank; equal parts of a small net have the
// same.
std::vector<double> work_of_parts(const NetSpec& net, const std::vector<plan::Part>& parts) {
  RunSpec one;
  one.net = distinct_parts(net);
  one.train.global_batch = one.policy.micro_batch = 1;
  const plan::Plan plan = emit_step(one, 0, {}, plan::PlanUse::prices);
  std::vector<double> small(plan.parts.size(), 0), flops;
  for (const plan::Routine& r : plan.routines)
    if (r.pass == plan::Pass::forward)
      for (int32_t i = r.first; i < r.first + r.count; ++i)
        if (plan.ops[i].part >= 0) small[plan.ops[i].part] += plan::work(plan.ops[i], plan).flops;
  const std::vector<int32_t> whole = firsts_of(parts), counted = firsts_of(plan.parts);
  for (const plan::Part& p : parts)
    flops.push_back(small[counted[std::find(whole.begin(), whole.end(), p.same_as) - whole.begin()]]);
  return flops;
}

}  // namespace

std::vector<int32_t> cuts_of(const NetSpec& net, int64_t stages, const std::vector<int64_t>& given) {
  const std::vector<plan::Part> parts = parts_of(net);
  const auto inner = static_cast<int64_t>(parts.size()) - 2;
  const auto end = static_cast<int32_t>(parts.size());
  std::vector<int32_t> cuts{0};
  if (static_cast<int64_t>(given.size()) == stages) {
    int64_t part = 1;
    for (int64_t j = 0; j + 1 < stages; ++j) cuts.push_back(static_cast<int32_t>(part += given[j]));
  } else if (std::all_of(parts.begin() + 1, parts.end() - 1,
                         [](const plan::Part& p) { return p.same_as == 1; })) {
    int64_t part = 1;
    for (int64_t j = 0; j + 1 < stages; ++j) {
      part += inner / stages + (j >= 1 && j <= inner % stages ? 1 : 0);
      cuts.push_back(static_cast<int32_t>(part));
    }
  } else if (stages > 1) {
    const std::vector<double> work = work_of_parts(net, parts);
    const auto begins = balanced({work.begin() + 1, work.end() - 1}, stages);
    for (int64_t j = 1; j < stages; ++j) cuts.push_back(1 + begins[j]);
  }
  cuts.push_back(end);
  return cuts;
}

}  // namespace isobar::nets
