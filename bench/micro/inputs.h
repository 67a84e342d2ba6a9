// What benchmarks of single ops compute on: operands as a training would hold them, by what each means to its
// op (activation, weight, gradient, statistic, moment, index …) and in its own element type.
//
//   fill_inputs(op, plan, [&](const View& v) { return backend.at(v); });
//
// The values are the same every time. How fast an op is may depend on them: large sums make the exponentials
// of the next op underflow, and an index out of range reads anything.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "model/plan/plan.h"

namespace isobar {

/// mean + spread z, z standard normal; `positive`: mean + spread |z|. Integers, and `whole` numbers: uniform
/// in [0, below).
struct Values {
  float mean = 0, spread = 1;
  bool positive = false;
  int64_t below = 1;
  bool whole = false;
};

struct Operand {
  View view;
  Values values;
  bool scalars = false;  // a step's scalars (plan.h) as the optimizer finds them
};

/// What the op reads or writes, its workspace and constants left out. Where it works in place, written comes
/// before read: what is read counts.
std::vector<Operand> operands_of(const Op& op, const Plan& plan);

/// `count` elements of type t; other streams, other values.
void fill(const Values& values, DType t, int64_t count, uint64_t stream, void* to);

/// Fills an op's operands.
void fill_inputs(const Op& op, const Plan& plan, const std::function<void*(const View&)>& at);

}  // namespace isobar
