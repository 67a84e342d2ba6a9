#include "model/nets/traced/kernels.h"

#include <set>

#include "model/nets/traced/aten.h"

namespace isobar {

std::vector<TracedKernel> kernels_of(const std::vector<TracedOp>& ops, bool compiled) {
  std::vector<TracedKernel> out;
  std::set<int32_t> touched;  // by the open kernel
  bool open = false;
  for (int32_t i = 0; i < static_cast<int32_t>(ops.size()); ++i) {
    const TracedOp& op = ops[static_cast<size_t>(i)];
    if (aten_class(op) == AtenClass::nothing) continue;
    bool joins = false;
    const bool fuses = compiled && aten_fuses(op);
    for (const TracedOperand& o : op.in) joins = joins || touched.contains(o.value);
    if (!(open && fuses && joins)) {
      out.emplace_back();
      touched.clear();
    }
    open = fuses;
    out.back().push_back(i);
    for (const auto* side : {&op.in, &op.out})
      for (const TracedOperand& o : *side) touched.insert(o.value);
  }
  return out;
}

}  // namespace isobar
