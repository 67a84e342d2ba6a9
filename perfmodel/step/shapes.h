// Ops that calibration timed with their own shapes: measured time over the price of their counts
// (Machine::shapes). Prices come from large ops, and small products, losses and sums over few columns miss
// them by 1 to 5 times.
//
//   case_name(op, "f32", 1)         // "gemm/f32/NT64x64x64/threads1", as in benchmarks and machine files
//   double f = shape_factor(op, where)
//
// Attention's kernels prefer some head sizes, which neither FLOPs nor scores show. Each timed size has a
// factor by its name ("attention/f32/d48", with a causal mask "attention/f32/d48causal"), interpolated
// between sizes. Where no causal one was timed, causal attention has the factors of the unmasked.
#pragma once
#include <string>

#include "model/base/spec/spec.h"
#include "model/plan/ops/op.h"
#include "perfmodel/step/conditions.h"

namespace isobar::perf {

std::string case_shape(const plan::Op& op);
std::string head_name(const std::string& kind, const std::string& precision, int64_t head_size, bool causal);
std::string case_name(const plan::Op& op, const std::string& precision, int64_t threads);
/// f32 or bf16; "" for types that CPUs emulate, whose ops are not timed by shape.
std::string case_precision(const RunSpec& spec);
/// False if no op of that kind was timed, whose shape then needs no name.
bool has_timed(plan::OpKind kind, const Conditions& where);
/// 1 if neither its shape nor, for attention, any head size was timed.
double shape_factor(const plan::Op& op, const Conditions& where);

}  // namespace isobar::perf
