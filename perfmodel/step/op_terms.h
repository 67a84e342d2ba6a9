// What one op consists of, counted from its descriptor, and its seconds at given prices.
//
//   Counts n = count_op(op, plan, cache_share, where);   // a few entries of (coefficient, amount)
//   double s = op_seconds(shape_of(op, plan, where), rates, where, cache_share);
#pragma once
#include "model/plan/plan.h"
#include "model/plan/work.h"
#include "perfmodel/step/collective.h"
#include "perfmodel/step/conditions.h"

namespace isobar {

/// What pricing an op needs of it. Numbers are doubles: those of a larger micro-batch lie on the line through
/// two smaller ones.
struct OpShape {
  OpKind kind;
  DType dtype;  // of its first operand
  bool fp8 = false, tf32 = false, causal = false;
  bool to_host = false;                     // copies between an accelerator and its host
  double m = 0, n = 0, k = 0, batch = 1;    // gemm
  double heads = 0, tq = 0, tk = 0, d = 0;  // attention; batch as above
  Work work;
  double bytes = 0;  // collectives: as count_collective wants them
  Placement group;
};
DType dtype_of(const Op& op, const Plan& plan);  // of its first operand
OpShape shape_of(const Op& op, const Plan& plan, const Conditions& where);
/// Seconds of the op, and its counts (collectives: what is charged) added to `counts` if given.
double op_seconds(const OpShape& op, const Counts& rates, const Conditions& where, double cache_share,
                  Counts* counts = nullptr);

/// What a FLOP of attention costs an accelerator beside one of heads of 128: narrow heads leave more softmax
/// to each product. 1 at 128.
double softmax_of_head(double head_size);
/// Leaves an accelerator's attention its FLOPs alone: narrow heads are charged for as FLOPs, and reading
/// passes under the products.
void keep_flops_alone(Work& attention);

/// One op's counts: a few entries of (coefficient, amount). `dtype` is that of its first operand. An op that
/// is too small for the rank's `threads` is charged for those that it is cut over (model/base/team.h).
Counts count_op(OpKind kind, DType dtype, const Work& work, double cache_share, int64_t threads);
/// The same, times what its shape was timed to take (shapes.h).
/// World ranks fill hosts in order, `where.ranks_on_host` on each. A group inside a host exchanges through
/// its memory, any other over the network, where all groups like it share the link of each host.
Counts count_op(const Op& op, const Plan& plan, double cache_share, const Conditions& where);

}  // namespace isobar
