// One op's counts, from its descriptor, and its seconds at given prices.
//
//   Counts n = count_op(op, plan, cache_share, where);   // a few entries of (coefficient, amount)
//   double s = op_seconds(shape_of(op, plan, where), rates, where, cache_share);
#pragma once
#include "model/plan/ops/work.h"
#include "model/plan/plan.h"
#include "perfmodel/step/collective.h"
#include "perfmodel/step/conditions.h"

namespace isobar::perf {

/// An op's properties for pricing. Numbers are doubles, since they are interpolated between two
/// micro-batches.
struct OpShape {
  plan::OpKind kind;
  plan::PriceClass price;
  DType dtype;  // of its first operand
  bool fp8 = false, tf32 = false, causal = false, windowed = false;
  bool to_host = false;                     // copies between an accelerator and its host
  double m = 0, n = 0, k = 0, batch = 1;    // gemm
  double busiest = 1;                       // GroupedGemmAttrs: m or k and the work are of that rank
  double heads = 0, tq = 0, tk = 0, d = 0;  // attention; batch as above
  plan::Work work;
  double bytes = 0;  // collectives: for count_collective
  Placement group;
};
DType dtype_of(const plan::Op& op, const plan::Plan& plan);  // of its first operand
OpShape shape_of(const plan::Op& op, const plan::Plan& plan, const Conditions& where);
/// Seconds of the op; adds its counts (for collectives: the charged ones) to `counts` if given.
double op_seconds(const OpShape& op, const Counts& rates, const Conditions& where, double cache_share,
                  Counts* counts = nullptr);

/// Seconds of a FLOP of attention on an accelerator relative to heads of 128: narrow heads have more softmax
/// per product.
double softmax_of_head(double head_size);
/// Keeps only the FLOPs of an accelerator's attention: narrow heads are charged as FLOPs, and reads are
/// hidden under products.
void keep_flops_alone(plan::Work& attention);

/// One op's counts: a few entries of (coefficient, amount). `dtype`: of its first operand. An op too small
/// for the rank's `threads` is charged for the threads it uses (model/base/system/team.h).
Counts count_op(plan::OpKind kind, DType dtype, const plan::Work& work, double cache_share, int64_t threads);
/// The same of an op of a plan on cores, times the measured factor of its shape (shapes.h). World ranks fill
/// hosts in order, `where.ranks_on_host` on each.
Counts count_op(const plan::Op& op, const plan::Plan& plan, double cache_share, const Conditions& where);
/// Seconds of an op of a plan, times that factor, on any device.
double op_seconds(const plan::Op& op, const plan::Plan& plan, const Counts& rates, const Conditions& where,
                  double cache_share, Counts* counts = nullptr);

}  // namespace isobar::perf
