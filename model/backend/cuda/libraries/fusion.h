// Which ops of a plan can run as part of a matrix product, in cuBLASLt's epilogues. The plan stays as it is:
// an op that is taken in launches nothing, and its product reads and writes what both would.
//
//   for (const Fusion& f : fusible(plan)) …                  // all that may be, by what ops are
//   const Plan as_run = fused(plan, chosen);                 // who touches what, then
//   relink(as_run, program);                                 // and so who waits for whom
//
//   gelu           u = x W' + bias; g = gelu(u)              one product that writes both
//   gelu_gradient  dg = dy W; du = dg gelu'(u)               one product; sums of du's columns stay with the
//   op bias_gradient  dW = dy' x; dbias = column sums of dy     one product that writes both
//
// cuBLASLt's GELU is the tanh form, so only ops that ask for it are taken in, and in 16 bits only. Pure:
// tested without a GPU.
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

/// In the order in which to choose: a bias gradient whose column sums are an activation_backward's may be
/// chosen only if that op's gelu_gradient is.
std::vector<Fusion> fusible(const Plan& plan);

/// The same plan with the operands of `chosen` where they are touched.
Plan fused(const Plan& plan, const std::vector<Fusion>& chosen);

}  // namespace isobar::cuda
