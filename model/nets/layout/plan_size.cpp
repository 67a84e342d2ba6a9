#include "model/nets/layout/plan_size.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/nets/layout/legal_layout.h"
#include "model/plan/link.h"

namespace isobar::nets {
namespace {

// Bytes of one op: itself, its path and those of its scratch, the buffers that it declares, its operands.
constexpr double kOp = sizeof(plan::Op) + 6 * sizeof(plan::View) + 64 + 2 * (sizeof(plan::Buffer) + 32);
constexpr double kTensor = sizeof(plan::Tensor) + 64;
// Bytes of one op in a linked step: the instruction, its waits, its lane's clock (link.cpp).
constexpr double kInstruction = sizeof(plan::Instr) + 32 + plan::kLanes * sizeof(int32_t);
// Bytes of one transfer in a step while ranks are checked (check.cpp).
constexpr double kCall = 224;

// Ops of one block in one routine, with all options on; parameters of a block.
constexpr double kOpsOfBlock = 64, kOpsOfRingStep = 8, kCopiesOfRank = 4, kTensorsOfBlock = 16;

double real(int64_t v) {
  return static_cast<double>(v);
}

int64_t passes_of(const RunSpec& s) {  // passes of one micro-batch through a chunk
  return s.policy.schedule == PipelineSchedule::zb_h1 ? 3 : 2;
}

std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g GB", 1e-9 * bytes);
  return text;
}

[[noreturn]] void refuse(const RunSpec& s, const char* key, const std::string& what, double bytes,
                         const char* mend, int64_t most = kMostPlanBytes) {
  throw ConfigError(
      s.file, key,
      what + " take up to " + gigabytes(bytes) + " to plan, above " + gigabytes(static_cast<double>(most)),
      mend);
}

double invocation_bytes(const RunSpec& s) {
  return real(s.micro_batches()) * real(s.layout.vpp * passes_of(s)) * sizeof(plan::Invocation);
}

double instructions(const plan::Plan& plan, const std::vector<plan::Invocation>& list) {
  double n = 0;
  for (const plan::Invocation& i : list) n += plan.routines[i.routine].count;
  return n;
}

// Bytes of one rank while all are checked: plan, transfers and its longest program.
double checked_bytes(const plan::Plan& plan) {
  double calls = 0;
  for (const plan::Invocation& i : plan.train) {
    const plan::Routine& r = plan.routines[i.routine];
    for (int32_t o = r.first; o < r.first + r.count; ++o)
      if (plan::is_collective(plan.ops[o].kind))
        calls += kCall + 2 * sizeof(int64_t) *
                             real(static_cast<int64_t>(
                                 plan.groups[plan.ops[o].as<plan::TransferAttrs>().group].ranks.size()));
  }
  return plan_bytes(plan) + step_bytes(plan) + calls;
}

// With `dp` replicas and the same batch for each.
RunSpec with_replicas(RunSpec s, int64_t dp) {
  s.train.global_batch = s.train.global_batch / s.layout.dp * dp;
  s.layout.dp = dp;
  return s;
}

const char* depth_key(const NetSpec& net) {
  return net.visit([](const auto& n) {
    if constexpr (requires { n.num_gnn_layers; }) return "net.num_gnn_layers";
    if constexpr (requires { n.bottleneck_depth; }) return "net.bottleneck_depth";
    if constexpr (requires { n.encoder_depths; }) return "net.encoder_depths";
    if constexpr (requires { n.hidden.front(); }) return "net.hidden";
    return "net.depth";
  });
}

[[noreturn]] void refuse_number(const RunSpec& s, const char* key, int64_t n, const char* of, int64_t most,
                                const char* mend) {
  throw ConfigError(s.file, key, "makes " + std::to_string(n) + " " + of + ", above " + std::to_string(most),
                    mend);
}

double experts_of(const NetSpec& net) {  // of a block, each with tensors of its own
  return net.visit([](const auto& n) {
    if constexpr (requires { n.experts; }) return real(n.experts.num_experts);
    return 0.0;
  });
}

// Twice the micro-batches in flight in a pipeline, plus the first and last: enough for steady state.
int64_t few_micro_batches(const RunSpec& s) {
  return 2 * s.layout.pp * s.layout.vpp + s.layout.pp;  // a multiple of pp, for interleaving
}

}  // namespace

void check_equal_parts(const RunSpec& s) {
  if (const int64_t parts = s.net.blocks(); parts > kMostEqualParts)
    refuse_number(s, depth_key(s.net), parts, "blocks", kMostEqualParts, "give fewer");
}

double plan_bytes(const RunSpec& s) {
  const LayoutSpec& l = s.layout;
  const int64_t variants =
      std::min<int64_t>(3, s.micro_batches());  // of a backward pass: first, middle, last
  const double routines = 1 + real(variants * (passes_of(s) - 1));
  const double blocks = real((s.net.blocks() + l.pp - 1) / l.pp + 2 * l.vpp);
  const double runs = zig_zags(limits_of(s.net), l.cp, s.policy.cp_kind) ? 2 : 1;
  const double of_rank = s.policy.cp_kind == CpKind::ring ? kOpsOfRingStep : kCopiesOfRank;
  const double passing = l.cp > 1 ? of_rank * real(l.cp) * runs : 0;
  const double parts = 2 * sizeof(int64_t) * real(std::max(l.cp, s.policy.sequence_parallel ? l.tp : 1));
  const double groups = 8 * real(l.world()) * sizeof(int);
  const double tensors = kTensorsOfBlock + 3 * experts_of(s.net);
  return routines * blocks * (kOpsOfBlock + passing) * (kOp + parts) +
         tensors * kTensor * real(s.net.blocks()) + invocation_bytes(s) + groups;
}

namespace {

size_t stated_sizes(const plan::Op& op) {
  const auto* transfer = std::get_if<plan::TransferAttrs>(&op.attrs);
  return transfer ? transfer->send.size() + transfer->receive.size() : 0;
}

}  // namespace

double plan_bytes(const plan::Plan& plan) {
  double bytes = sizeof(plan::Plan) + kTensor * real(static_cast<int64_t>(plan.tensors.size()));
  for (const plan::Op& op : plan.ops)
    bytes += sizeof(plan::Op) + real(static_cast<int64_t>(op.path.size())) +
             real(static_cast<int64_t>(sizeof(plan::View) * (op.reads.size() + op.writes.size()) +
                                       sizeof(int64_t) * stated_sizes(op)));
  for (const plan::Buffer& b : plan.buffers)
    bytes += sizeof(plan::Buffer) + real(static_cast<int64_t>(b.name.size()));
  for (const plan::Group& g : plan.groups) bytes += real(static_cast<int64_t>(sizeof(int) * g.ranks.size()));
  return bytes + real(static_cast<int64_t>(sizeof(plan::Invocation) * plan.train.size()));
}

double step_bytes(const plan::Plan& plan) {
  return kInstruction * instructions(plan, plan.train);
}

void check_plan_size(const RunSpec& s) {
  check_equal_parts(s);
  if (const int64_t m = s.micro_batches(); m > kMostMicroBatches)
    refuse_number(s, "policy.micro_batch", m, "micro-batches a step", kMostMicroBatches,
                  "give larger ones, or a smaller train.global_batch");
  const double bytes = plan_bytes(s), limit = kMostPlanBytes;
  if (bytes <= limit) return;
  const auto str = [](int64_t v) { return std::to_string(v); };
  RunSpec uncut = s;
  uncut.layout.cp = uncut.layout.tp = 1;
  if (plan_bytes(uncut) <= limit / 2)
    refuse(s, s.layout.cp > 1 ? "layout.cp" : "layout.tp",
           str(std::max(s.layout.cp, s.layout.tp)) + " ranks that share a sample", bytes,
           "share it among fewer");
  refuse(s, s.net.depth_key(), str((s.net.blocks() + s.layout.pp - 1) / s.layout.pp) + " blocks on a rank",
         bytes, "give fewer, or more stages (layout.pp)");
}

void check_step_size(const RunSpec& s, const plan::Plan& plan, int64_t ranks) {
  const double bytes = step_bytes(plan) * real(ranks);
  if (bytes <= static_cast<double>(kMostPlanBytes)) return;
  refuse(s, "policy.micro_batch",
         std::to_string(s.micro_batches()) + " micro-batches a step with a plan of " +
             std::to_string(plan.ops.size()) + " ops" +
             (ranks > 1 ? " on " + std::to_string(ranks) + " stages" : ""),
         bytes, "give larger micro-batches, or a smaller train.global_batch");
}

RunSpec with_few_micro_batches(RunSpec s) {
  const int64_t few = few_micro_batches(s);
  if (s.micro_batches() <= few) return s;
  s.policy.micro_batch = s.micro_batch();
  s.train.global_batch = s.layout.dp * s.policy.micro_batch * few;
  return s;
}

RunSpec world_to_check(const RunSpec& spec, const plan::Workspace& workspace) {
  const double limit = kMostWorldBytes;
  const auto bytes = [&](const RunSpec& s) {
    return checked_bytes(build_plan(s, 0, workspace)) * static_cast<double>(s.layout.world());
  };
  if (bytes(spec) <= limit) return spec;
  RunSpec part = with_few_micro_batches(spec);
  // Checking two replicas suffices; use more while memory allows.
  const auto room = [&](const RunSpec& s) {
    return static_cast<int64_t>(limit / bytes(s) * real(s.layout.dp));
  };
  const int64_t unit = part.layout.ep / std::gcd(part.layout.ep, part.layout.cp);  // experts divide these
  const auto whole = [&](int64_t dp) { return std::max(unit, dp - dp % unit); };
  part = with_replicas(std::move(part), std::min(std::max<int64_t>(2, unit), spec.layout.dp));
  const int64_t replicas = std::min(room(part), spec.layout.dp);
  if (replicas < part.layout.dp)
    refuse(spec, "layout",
           std::to_string(part.layout.world()) + " ranks of dp " + std::to_string(part.layout.dp) +
               ", held " + "against one another,",
           bytes(part), "make tp, cp or pp smaller", kMostWorldBytes);
  // Larger groups take more memory on each rank, so sizes are tried from above.
  for (int64_t dp = whole(replicas); dp > part.layout.dp; dp = whole(dp / 2))
    if (const RunSpec more = with_replicas(part, dp); bytes(more) <= limit / 2) return more;
  return part;
}

}  // namespace isobar::nets
