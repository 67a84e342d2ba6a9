// Ops that calibration has timed with their own shapes: what one takes, as a multiple of what its counts cost
// at the prices of its class (Machine::shapes). Small products, losses and sums over a few columns are 1 to 5
// times off those prices, which large ones have set.
//
//   case_name(op, "f32", 1)         // "gemm/f32/NT64x64x64/threads1", as benchmarks and machine files have
//   double f = shape_factor(op, where)
//
// Attention's kernels suit some head sizes better than others, which neither FLOPs nor scores tell. Of each
// size that any calibration times there is a factor by its name ("attention/f32/d48"); sizes between lie
// between.
#pragma once
#include <string>

#include "model/base/spec.h"
#include "model/plan/op.h"
#include "perfmodel/step/conditions.h"

namespace isobar {

std::string case_shape(const Op& op);
std::string head_name(const std::string& kind, const std::string& precision, int64_t head_size);
std::string case_name(const Op& op, const std::string& precision, int64_t threads);
/// f32 or bf16; "" of policies that CPUs emulate: their ops are not timed by shape.
std::string case_precision(const RunSpec& spec);
/// 1 where neither its shape nor, of attention, any head size was timed.
double shape_factor(const Op& op, const Conditions& where);

}  // namespace isobar
