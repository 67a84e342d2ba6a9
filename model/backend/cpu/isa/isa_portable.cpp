// Kernels for any CPU.
#include "model/backend/cpu/isa/for_kernels.h"

namespace isobar::cpu {
namespace {
// clang-format off
#include "model/backend/cpu/isa/simd_portable.h"
#include "model/backend/cpu/isa/kernels_of_isa.h"
#include "model/backend/cpu/tiles.h"
#include "model/backend/cpu/attention/attention_tiles.h"
#include "model/backend/cpu/attention/attention_tiles_backward.h"
// clang-format on
}  // namespace

const KernelTable& portable_kernels() {
  static constexpr KernelTable kTable = make_table<Portable, DotBf16Widened<Portable>>();
  return kTable;
}

const KernelTable& plain_tile_kernels() {
  static const KernelTable kTable = [] {
    KernelTable t = portable_kernels();
    t.attention_forward[of(DType::bf16)] = attention_forward_tiles<Portable, PlainTiles>;
    t.attention_backward[of(DType::bf16)] = attention_backward_tiles<Portable, PlainTiles>;
    t.tile_product = tile_product<PlainTiles>;
    return t;
  }();
  return kTable;
}

}  // namespace isobar::cpu
