// What benchmarks of single ops compute on: operands as a training would hold them, by what each means to its
// op (activation, weight, gradient, statistic, moment, index …) and in its own element type.
//
//   const Inputs inputs(op, plan, [&](const View& v) { return backend.at(v); });   // before each timing
//   backend.launch(op, 0, 0);
//   inputs.renew();                                                                // before the next launch
//
// The values are the same every time. How fast an op is may depend on them: sums that grew over thousands of
// iterations make the exponentials of the next op underflow, and an index out of range reads anything.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/plan/plan.h"

namespace isobar {

/// mean + spread z, z standard normal; `positive`: mean + spread |z|. Integers: uniform in [0, below).
struct Values {
  float mean = 0, spread = 1;
  bool positive = false;
  int64_t below = 1;
};

struct Operand {
  View view;
  Values values;
  bool scalars = false;  // a step's scalars (plan.h) as the optimizer finds them
};

/// What the op reads or writes, its workspace left out. Where it works in place, written comes before read:
/// what is read counts.
std::vector<Operand> operands_of(const Op& op, const Plan& plan);

/// `count` elements of type t; other streams, other values.
void fill(const Values& values, DType t, int64_t count, uint64_t stream, void* to);

/// An op's operands, filled.
class Inputs {
 public:
  Inputs(const Op& op, const Plan& plan, const std::function<void*(const View&)>& at);
  /// Gives back what the op reads and, working in place, has overwritten. What is only added to stays.
  void renew() const;

 private:
  struct Overwritten {
    void* at;
    std::vector<std::byte> bytes;
  };
  std::vector<Overwritten> overwritten_;
};

}  // namespace isobar
