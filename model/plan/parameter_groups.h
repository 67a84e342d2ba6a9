// Parameters that are updated with rates and decays of their own, as an optimizer's op reads them: runs of
// its elements, by their ends.
//
//   parameter_groups(plan.params, first, count)    // of the flat parameters [first, first + count)
#pragma once
#include <cstdint>
#include <vector>

namespace isobar {

struct Param;

struct ParameterGroup {  // three words of a constant buffer
  int32_t end;           // of the run, in units of kGroupElements of the op's elements
  float lr, decay;       // factors on the learning rate and on the weight decay
};
constexpr int64_t kGroupElements = 16;  // what operands and shares of flat parameters begin on

/// Gaps belong to what lies before them. Neighbours that are alike are one.
std::vector<ParameterGroup> parameter_groups(const std::vector<Param>& params, int64_t first, int64_t count);

}  // namespace isobar
