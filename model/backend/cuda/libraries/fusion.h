// Ops of a plan that can run in cuBLASLt's epilogues. The plan stays unchanged: a fused op launches nothing,
// and its product reads and writes the operands of both.
//
//   for (const Fusion& f : fusible(plan)) …                  // all candidates
//   const Plan as_run = fused(plan, chosen);                 // the plan with operands at the products
//   relink(as_run, program);                                 // and the resulting waits
//
//   gelu           u = x W' + bias; g = gelu(u)              one product that writes both
//   gelu_gradient  dg = dy W; du = dg gelu'(u)               one product; the op still sums du's columns
//   bias_gradient  dW = dy' x; dbias = column sums of dy     one product that writes both
//
// cuBLASLt's GELU is the tanh form, so only ops of that form are fused, in 16 bits only. Pure: tested without
// a GPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/plan/plan.h"

namespace isobar::cuda {

enum class Fused : uint8_t { none, gelu, gelu_gradient, bias_gradient };
const char* name_of(Fused f);

struct Fusion {
  Fused kind;
  int32_t product, other;  // indices into Plan::ops
};

/// In order of choice: a bias gradient whose column sums belong to an activation_backward may be chosen only
/// if that op's gelu_gradient is.
std::vector<Fusion> fusible(const plan::Plan& plan);

/// The plan with the operands of `chosen` moved to their products.
plan::Plan fused(const plan::Plan& plan, const std::vector<Fusion>& chosen);

}  // namespace isobar::cuda
