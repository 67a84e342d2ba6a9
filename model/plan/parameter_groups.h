// Parameters with their own learning rate and decay, as an optimizer op reads them: runs of its elements,
// given by their ends.
//
//   parameter_groups(plan.params, first, count)    // of the flat parameters [first, first + count)
#pragma once
#include <cstdint>
#include <vector>

namespace isobar::plan {

struct Param;

struct ParameterGroup {  // three words of a constant buffer
  int32_t end;           // of the run, in units of kGroupElements of the op's elements
  float lr, decay;       // factors on learning rate and weight decay
};
constexpr int64_t kGroupElements = 16;  // alignment of operands and of shares of flat parameters

/// Gaps belong to the run before them; equal neighbours merge.
std::vector<ParameterGroup> parameter_groups(const std::vector<Param>& params, int64_t first, int64_t count);

}  // namespace isobar::plan
