// Kernels for any CPU.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "model/backend/cpu/kernel_table.h"

namespace isobar::cpu {
namespace {
// clang-format off
#include "model/backend/cpu/simd_portable.h"
#include "model/backend/cpu/kernels_of_isa.h"
// clang-format on
}  // namespace

const KernelTable& portable_kernels() {
  static constexpr KernelTable kTable = make_table<Portable, DotBf16Widened<Portable>>();
  return kTable;
}

}  // namespace isobar::cpu
