// Rotary position embedding: threads own rows.
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

}  // namespace isobar::cpu
