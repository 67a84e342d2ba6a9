#include "model/plan/parameter_groups.h"

#include <algorithm>
#include <stdexcept>

#include "model/plan/plan.h"

namespace isobar::plan {

std::vector<ParameterGroup> parameter_groups(const std::vector<Param>& params, int64_t first, int64_t count) {
  const auto end_of = [&](int64_t flat) {
    const int64_t at = std::clamp<int64_t>(flat - first, 0, count);
    if (at % kGroupElements != 0 && at != count)
      throw std::logic_error("parameters of two groups lie in one operand");
    return static_cast<int32_t>((at + kGroupElements - 1) / kGroupElements);
  };
  std::vector<ParameterGroup> out;
  for (const Param& p : params) {  // by offset
    if (p.offset + p.count <= first || p.offset >= first + count) continue;
    const float decay = p.decays ? 1.0f : 0.0f;
    if (!out.empty() && out.back().lr == p.lr_factor && out.back().decay == decay) continue;
    if (!out.empty()) out.back().end = end_of(p.offset);
    out.push_back({0, p.lr_factor, decay});
  }
  if (out.empty()) out.push_back({0, 1, 1});  // only a gap
  out.back().end = end_of(first + count);
  return out;
}

}  // namespace isobar::plan
