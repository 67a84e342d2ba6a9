// Inputs for benchmarks of single ops: realistic values by each operand's role (activation, weight, gradient,
// statistic, moment, index …) and element type.
//
//   fill_inputs(op, plan, [&](const View& v) { return backend.at(v); });
//
// Values are deterministic. They can affect speed and safety: large sums make exponentials underflow in the
// next op, and an index out of range reads invalid memory.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "model/plan/plan.h"

namespace isobar::micro {

/// mean + spread z, with z standard normal; `positive`: mean + spread |z|. Integers and `whole` numbers are
/// uniform in [0, below), or the ends of equal parts of [0, upto].
struct Values {
  float mean = 0, spread = 1;
  bool positive = false;
  int64_t below = 1;
  bool whole = false;
  int64_t upto = 0;
};

struct Operand {
  plan::View view;
  Values values;
  bool scalars = false;  // a step's scalars (plan.h) as the optimizer expects them
};

/// Operands of an op except workspace and constants. Writes come before reads, so that filling an in-place
/// operand leaves the values to read.
std::vector<Operand> operands_of(const plan::Op& op, const plan::Plan& plan);

/// Fills `count` elements of type t; the values depend on `stream`.
void fill(const Values& values, DType t, int64_t count, uint64_t stream, void* to);

/// Fills an op's operands.
void fill_inputs(const plan::Op& op, const plan::Plan& plan,
                 const std::function<void*(const plan::View&)>& at);

}  // namespace isobar::micro
