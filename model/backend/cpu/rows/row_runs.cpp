#include "model/backend/cpu/rows/row_runs.h"

#include <algorithm>
#include <map>

#include "model/backend/cpu/isa/kernels.h"
#include "model/plan/ops/operands.h"

namespace isobar {
namespace {

constexpr plan::OpKind kGemm = plan::OpKind::gemm;

bool same(const plan::View& a, const plan::View& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.count == b.count;
}

class RunFinder {
 public:
  RunFinder(const plan::Plan& plan, const plan::Program& program, const std::vector<plan::View>& wanted)
      : plan_(plan), program_(program) {
    for (const plan::Instr& i : program.instrs)
      for (const plan::View& v : op(i).reads)
        if (v) ++readers_[v.buffer];
    for (const plan::View& v : wanted)
      if (v) ++readers_[v.buffer];
  }

  std::vector<RowRun> all() const {
    std::vector<RowRun> found;
    const auto count = static_cast<int32_t>(program_.instrs.size());
    for (int32_t first = 0; first < count; ++first) {
      if (!is_layer(op(at(first)))) continue;
      int32_t end = first + 1;
      while (end < count && continues(first, end)) ++end;
      if (end > first + 1) found.push_back({first, end});
      first = end - 1;
    }
    return found;
  }

 private:
  const plan::Instr& at(int32_t i) const { return program_.instrs[static_cast<size_t>(i)]; }
  const plan::Op& op(const plan::Instr& i) const { return plan_.ops[static_cast<size_t>(i.op)]; }
  bool is_f32(const plan::View& v) const {
    return plan_.buffers[static_cast<size_t>(v.buffer)].dtype == DType::f32;
  }

  // The first operand and the result of a product or an activation
  static const plan::View& operand(const plan::Op& o) {
    return o.kind == kGemm ? plan::in<kGemm>(o, "A") : plan::in<plan::OpKind::activation>(o, "u");
  }
  static const plan::View& result(const plan::Op& o) {
    return o.kind == kGemm ? plan::out<kGemm>(o, "C") : plan::out<plan::OpKind::activation>(o, "g");
  }

  bool is_layer(const plan::Op& o) const {
    if (o.kind != kGemm) return false;
    const auto& a = o.as<plan::GemmAttrs>();
    return a.batch == 0 && !a.trans_a && a.trans_b && !a.accumulate && !a.tf32 && !a.fp8 &&
           plan::in<kGemm>(o, "bias") && is_f32(plan::in<kGemm>(o, "A")) && is_f32(plan::in<kGemm>(o, "B")) &&
           is_f32(plan::out<kGemm>(o, "C")) && cpu::takes_layer(a.m, a.n, a.k);
  }

  // True if the op at `end` is the only reader of its predecessor's result, and does not overwrite the run's
  // input, of which other rows are still to be read.
  bool continues(int32_t first, int32_t end) const {
    const plan::Instr &before = at(end - 1), &next = at(end);
    const plan::Op &from = op(before), &to = op(next);
    const bool activates = to.kind == plan::OpKind::activation && from.kind == plan::OpKind::gemm &&
                           plan::in<plan::OpKind::activation>(to, "u").count == result(from).count &&
                           is_f32(result(to));
    return next.slot == before.slot && next.invocation == before.invocation && next.lane == before.lane &&
           (activates ||
            (is_layer(to) && to.as<plan::GemmAttrs>().m == op(at(first)).as<plan::GemmAttrs>().m)) &&
           same(operand(to), result(from)) && readers_.at(operand(to).buffer) == 1 &&
           apart(operand(op(at(first))), result(to), next.slot);
  }

  bool apart(const plan::View& a, const plan::View& b, int32_t slot) const {
    const auto [a0, a1] = plan::address(plan_, a, slot);
    const auto [b0, b1] = plan::address(plan_, b, slot);
    return a1 <= b0 || b1 <= a0;
  }

  const plan::Plan& plan_;
  const plan::Program& program_;
  std::map<int32_t, int> readers_;  // by buffer
};

}  // namespace

std::vector<RowRun> row_runs(const plan::Plan& plan, const plan::Program& program,
                             const std::vector<plan::View>& wanted) {
  return RunFinder(plan, program, wanted).all();
}

}  // namespace isobar
