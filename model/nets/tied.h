// Weights that both ends of a net share. Where a pipeline's first and last stage hold copies, their gradients
// are summed before the optimizer (Shoeybi 2019).
#pragma once
#include "model/nets/layers.h"
#include "model/plan/parameters.h"

namespace isobar::nets {

/// `table`: this rank's copy; on other stages nothing is emitted.
inline void sum_tied_gradient(Emission& e, const Sharding& at, const plan::Parameters& params,
                              const plan::View& table) {
  const bool end = at.at.pp == 0 || at.at.pp == at.pp - 1;
  if (at.pp == 1 || !end || !e.b.trained(table)) return;
  const std::vector<int> ranks = plan::group_of(e.spec.layout, "pp", e.b.plan.rank);
  const int group = e.b.group("embedding", {ranks.front(), ranks.back()});
  const plan::View g = params.kept_gradient(table);
  e.b.emit<plan::OpKind::all_reduce>("optimizer/embedding/all_reduce", {.group = group}, {g}, {g},
                                     plan::Lane::dp);
}

}  // namespace isobar::nets
