#include "model/nets/traced/kernels.h"

#include <algorithm>
#include <utility>

#include "model/nets/traced/aten.h"

namespace isobar::nets {
namespace {

class KernelCutter {
 public:
  explicit KernelCutter(bool compiled) : compiled_(compiled) {}

  void add(int32_t i, const TracedOp& op) {
    const AtenClass kind = aten_class(op);
    if (kind == AtenClass::nothing || (compiled_ && known_cast(op))) return;
    const bool fuses = compiled_ && aten_fuses(op) && !in_place(op);
    int32_t latest = -1;  // kernel that makes an operand
    for (const TracedOperand& o : op.in)
      if (const auto at = made_.find(o.value); at != made_.end()) latest = std::max(latest, at->second);
    if (!(fuses && latest >= 0 && fusing_[static_cast<size_t>(latest)])) {
      latest = static_cast<int32_t>(out_.kernels.size());
      out_.kernels.emplace_back();
      fusing_.push_back(fuses);
    }
    out_.kernels[static_cast<size_t>(latest)].push_back(i);
    for (const TracedOperand& o : op.out) made_[o.value] = latest;
  }
  TracedKernels take() { return std::move(out_); }

 private:
  static bool in_place(const TracedOp& op) {
    return std::any_of(op.out.begin(), op.out.end(), [&](const TracedOperand& to) {
      return std::any_of(op.in.begin(), op.in.end(),
                         [&](const TracedOperand& o) { return o.value == to.value; });
    });
  }
  bool known_cast(const TracedOp& op) {
    if (op.op != "_to_copy" || op.in.size() != 1 || op.out.size() != 1) return false;
    const auto [first, fresh] =
        casts_.try_emplace({op.in[0].value, static_cast<int32_t>(op.out[0].type.stored)}, op.out[0].value);
    if (!fresh) out_.same[op.out[0].value] = first->second;
    return !fresh;
  }

  const bool compiled_;
  TracedKernels out_;
  std::vector<bool> fusing_;                              // by kernel
  std::map<int32_t, int32_t> made_;                       // kernels, by value
  std::map<std::pair<int32_t, int32_t>, int32_t> casts_;  // results, by operand and type
};

}  // namespace

TracedKernels kernels_of(const std::vector<TracedOp>& ops, bool compiled) {
  KernelCutter cutter(compiled);
  for (size_t i = 0; i < ops.size(); ++i) cutter.add(static_cast<int32_t>(i), ops[i]);
  return cutter.take();
}

}  // namespace isobar::nets
