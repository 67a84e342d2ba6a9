#include "model/nets/layout/busiest_rank.h"

#include <algorithm>

#include "model/nets/graph/graph_cut.h"
#include "model/nets/layout/legal_layout.h"
#include "model/plan/layout.h"

namespace isobar::nets {

int busiest_rank(const RunSpec& spec) {
  if (spec.layout.cp == 1) return 0;
  const CpKind kind = spec.policy.cp_kind;
  if (const NetLimits limits = limits_of(spec.net); limits.causal)
    return kind == CpKind::ulysses || zig_zags(limits, spec.layout.cp, kind)
               ? 0
               : plan::group_of(spec.layout, "cp", 0).back();  // the last tokens see most
  return spec.net.visit([&](const auto& n) {
    if constexpr (requires { edge_updates(n, spec.layout.cp); }) {
      const std::vector<int64_t> updates = edge_updates(n, spec.layout.cp);
      return plan::group_of(
          spec.layout, "cp",
          0)[static_cast<size_t>(std::max_element(updates.begin(), updates.end()) - updates.begin())];
    } else {
      return 0;
    }
  });
}

}  // namespace isobar::nets
