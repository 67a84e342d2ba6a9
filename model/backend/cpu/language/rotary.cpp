// Rotary position embedding: threads own rows.
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

void rotary(const Rotary& p, bool backward, const float* table, void* x) {
  const auto kernel = kernels().rotary[of(p.act)][backward ? 1 : 0];
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.rows, t, threads);
    kernel(p, r.begin, r.end, table, x);
  });
}

// ---- ops ----

namespace {

Rotary rotary_of(const plan::RotaryAttrs& a, DType act) {
  return {a.rows, a.cols, a.ld, a.d, a.tokens, act};
}

void run_rotary(const CpuCall<plan::OpKind::rotary>& c) {
  rotary(rotary_of(c.a, c.type_out("qk")), false, c.in("table"), c.out("qk"));
}

void run_rotary_backward(const CpuCall<plan::OpKind::rotary_backward>& c) {
  rotary(rotary_of(c.a, c.type_out("dqk")), true, c.in("table"), c.out("dqk"));
}

}  // namespace

CpuRows rotary_ops() {
  static constexpr CpuRow kRows[] = {row<run_rotary>, row<run_rotary_backward>};
  return kRows;
}

}  // namespace isobar::cpu
