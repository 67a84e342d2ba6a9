// A layout and its policy as numbers, compact enough to search millions.
//
//   Layout l = layout_of(spec);            // of a run's configuration
//   RunSpec s = with_layout(spec, l);      // and back
//   Placements at = placements_of(l, 8);   // ranks of each axis' groups on a host of eight
#pragma once
#include <array>
#include <string>
#include <vector>

#include "perfmodel/layouts/sections.h"

namespace isobar::perf {

/// A layout and its policy without strings.
struct Layout {
  int32_t dp = 1, tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1;
  int32_t micro_batch = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int8_t zero = 0;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  CpKind cp_kind = CpKind::allgather;
  int8_t order = 0;      // index into kOrders: which axis' ranks are neighbours
  int32_t workers = -1;  // loader threads of a rank; -1: those of the run
  int64_t world() const { return int64_t{dp} * tp * cp * pp; }
  SectionKey key() const {
    return {tp, cp, sequence_parallel, recompute, false, cp_kind, cp > 1 && micro_batch == 1, ep};
  }
};
Layout layout_of(const RunSpec& spec);
RunSpec with_layout(RunSpec spec, const Layout& l);
/// Rank orders, "tp-cp-dp-pp" first.
const std::vector<std::string>& rank_orders();
/// Ranks of each axis' groups on one host.
Placements placements_of(const Layout& l, int64_t ranks_on_host);

/// "DP16 TP2+SP CP4 PP8 VPP10 MBS1 ZeRO1, 8 loaders" for display: axes of size 1 but DP, all-gathering CP and
/// other defaults are left out
std::string text_of(const Layout& l);
/// The same of a run, with "offload 20": the layers whose activations wait in host memory
std::string layout_text(const RunSpec& spec);

}  // namespace isobar::perf
