#include "model/nets/layout/device_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/nets/build.h"
#include "model/nets/layout/legal_layout.h"
#include "model/nets/layout/plan_size.h"
#include "model/nets/traced/eager_memory.h"
#include "model/plan/layout.h"

namespace isobar::nets {
namespace {

constexpr int64_t kPlanned = 64;  // ranks: smaller worlds are planned whole

DeviceMemory of_rank(const ValidSpec& spec, int rank, const plan::Workspace& workspace,
                     const DeviceRoom& room) {
  const plan::Plan plan = build_plan(spec, rank, workspace);
  const auto communicators = static_cast<int64_t>(plan.groups.size());
  return {step_memory(spec, plan), nccl_buffer_bytes(communicators, room.nccl_channels), room.process};
}

// Repeated micro-batches take no further memory, except under gpipe, which keeps all.
RunSpec shortened(const RunSpec& spec) {
  return spec.policy.schedule == PipelineSchedule::gpipe ? spec : with_few_micro_batches(spec);
}

/// Ranks among which one needs the most memory, since tokens, rows and shards may be cut unevenly. Replicas
/// without shards count once; of large worlds it takes the first and last of every axis and all stages.
std::vector<int> ranks_to_place(const RunSpec& spec) {
  const LayoutSpec& l = spec.layout;
  const auto inner = [](int64_t place, int64_t size) { return place > 0 && place < size - 1; };
  std::vector<int> ranks;
  for (int rank = 0; rank < l.world(); ++rank) {
    const plan::Coords at = plan::coords_of(l, rank);
    if (spec.policy.zero == 0 && at.dp > 0) continue;
    if (l.world() > kPlanned && (inner(at.tp, l.tp) || inner(at.cp, l.cp) || inner(at.dp, l.dp))) continue;
    ranks.push_back(rank);
  }
  return ranks;
}

/// Legal micro-batch sizes of a run on a GPU, largest first: they divide a rank's batch and suit the layout
/// (legal_layout.h). A pipeline keeps pp * vpp micro-batches, or as many as possible, since fewer mean larger
/// bubbles; {}: none is legal.
std::vector<int64_t> micro_batch_sizes(const RunSpec& spec) {
  const LayoutSpec& l = spec.layout;
  const NetLimits net = limits_of(spec.net);
  const int64_t samples = spec.train.global_batch / l.dp;
  std::vector<int64_t> sizes;
  for (int64_t b = samples; b > 0; --b)
    if (samples % b == 0 && (l.vpp == 1 || interleaves(samples / b, l.pp)) &&
        (!spec.policy.sequence_parallel || sequence_cuts(net, b, l.cp, l.tp)))
      sizes.push_back(b);
  if (sizes.empty() || l.pp == 1) return sizes;
  const int64_t least = std::min(l.pp * l.vpp, samples / sizes.back());
  std::erase_if(sizes, [&](int64_t b) { return samples / b < least; });
  return sizes;
}

}  // namespace

plan::Memory fullest(const ValidSpec& spec, const plan::Workspace& workspace) {
  plan::Memory most;
  for (const int rank : ranks_to_place(spec)) {
    const plan::Memory m = step_memory(spec, build_plan(spec, rank, workspace));
    if (m.total() > most.total()) most = m;
  }
  return most;
}

DeviceMemory device_memory(const ValidSpec& spec, const plan::Workspace& workspace, const DeviceRoom& room) {
  const ValidSpec few = shortened(spec);
  DeviceMemory most;
  for (const int rank : ranks_to_place(few))
    if (const DeviceMemory m = of_rank(few, rank, workspace, room); m.total() > most.total()) most = m;
  return most;
}

MicroBatchChoice largest_micro_batch(const ValidSpec& spec, const plan::Workspace& workspace,
                                     const DeviceRoom& room) {
  MicroBatchChoice out{.spec = spec, .room = room};
  if (spec->policy.micro_batch > 0) return out;
  const std::vector<int64_t> sizes = micro_batch_sizes(spec);
  if (sizes.empty()) return out;  // build_plan() refuses it with the reason
  out.chosen = true;
  int first = -1;  // the rank that exceeded the limit: usually the same for the next size
  for (const int64_t size : sizes) {
    out.spec.policy.micro_batch = size;
    const ValidSpec few = shortened(out.spec);
    std::vector<int> ranks = ranks_to_place(few);
    if (const auto at = std::find(ranks.begin(), ranks.end(), first); at != ranks.end())
      std::rotate(ranks.begin(), at, at + 1);
    out.memory = {};
    for (const int rank : ranks) {
      if (const DeviceMemory m = of_rank(few, rank, workspace, room); m.total() > out.memory.total())
        out.memory = m;
      first = rank;
      if (out.memory.total() > room.bytes) break;
    }
    out.fits = out.memory.total() <= room.bytes;
    if (out.fits) return out;
  }
  return out;
}

std::string MicroBatchChoice::text() const {
  if (!chosen) return "";
  char says[160];
  const char* what = fits ? "the largest that fits" : "the smallest, and even that does not fit";
  if (std::isinf(room.bytes))
    std::snprintf(says, sizeof says, "the largest of the layout's; no GPU's memory is known here");
  else
    std::snprintf(says, sizeof says, "%s: %.3g of %.3g GB, %.2g of them for CUDA's context and libraries",
                  what, 1e-9 * memory.total(), 1e-9 * room.bytes, 1e-9 * room.process);
  return "micro-batch " + std::to_string(spec.policy.micro_batch) + ", " + says;
}

}  // namespace isobar::nets
