// cuBLASLt's demands on a product's operands, from its header (CUDA 13: cublasLt.h) and messages, independent
// of this program's calls: the emulator and the tests of plans refuse what the library would.
#pragma once
#include <string>

#include "model/backend/cuda/libraries/gemm.h"

namespace isobar::cuda::testing {

/// The reason for which cuBLASLt would refuse the product; "" if it would not.
inline std::string refusal(const GemmKey& key, const GemmOperands& x, const void* workspace, int64_t bytes) {
  const auto off = [](const void* p, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) != 0;
  };
  const auto at = [&](const char* what, const void* p, int64_t demanded) {
    return text_of(key) + ": " + what + " lies on " + std::to_string(reinterpret_cast<uintptr_t>(p) % 256) +
           " mod 256 bytes and must lie on a multiple of " + std::to_string(demanded);
  };
  // "workspace pointer must be aligned to at least a multiple of 256 bytes": INVALID_VALUE
  if (bytes > 0 && !workspace) return text_of(key) + ": no workspace";
  if (bytes > 0 && off(workspace, 256)) return at("the workspace", workspace, 256);
  // The alignments for which the algorithm was chosen (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_*), and whole
  // elements
  const struct {
    const char* name;
    const void* p;
    DType t;
  } operands[] = {{"A", x.a, key.in},      {"B", x.b, key.in},
                  {"C", x.c, key.out},     {"the bias", x.bias, key.out},
                  {"aux", x.aux, key.out}, {"the sums", x.sums, key.out}};
  for (const auto& o : operands) {
    if (o.p && off(o.p, key.align)) return at(o.name, o.p, key.align);
    if (o.p && off(o.p, size_of(o.t))) return at(o.name, o.p, size_of(o.t));
  }
  const ColumnMajor c = column_major(key);
  if (c.ld_first < (c.trans_first ? c.inner : c.rows) || c.ld_second < (c.trans_second ? c.cols : c.inner) ||
      c.ld_out < c.rows)
    return text_of(key) + ": a leading dimension is less than the rows";
  if (key.fused == Fused::gelu || key.fused == Fused::gelu_gradient) {
    // CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: "must be divisible by 8 and be no less than the number of rows"
    if (!x.aux) return text_of(key) + ": no auxiliary matrix";
    if (c.ld_out % 8 != 0)
      return text_of(key) + ": the auxiliary matrix's leading dimension is no multiple of 8";
    if (off(x.aux, 16)) return at("aux", x.aux, 16);  // 8 elements of 16 bits, like its rows
  }
  if (key.fused == Fused::bias_gradient && !x.sums) return text_of(key) + ": no place for the sums";
  return "";
}

}  // namespace isobar::cuda::testing
