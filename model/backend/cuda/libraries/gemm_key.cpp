// Descriptions of a product, independent of the library.
#include <stdexcept>

#include "model/backend/cuda/libraries/gemm.h"
#include "model/plan/ops/operands.h"

namespace isobar::cuda {

int alignment_of(const GemmOperands& x) {
  uintptr_t all = 16;
  for (const void* p : {x.a, x.b, x.bias, static_cast<const void*>(x.c), static_cast<const void*>(x.aux),
                        static_cast<const void*>(x.sums)})
    all |= reinterpret_cast<uintptr_t>(p);
  return static_cast<int>(all & (~all + 1));  // the lowest bit
}

GemmKey key_of(const plan::Op& op, const plan::Plan& plan, const GemmOperands& x) {
  const auto& a = op.as<plan::GemmAttrs>();
  if (a.batch > 0 || a.fp8)
    throw std::logic_error(op.path + ": the GPU backend runs no " + (a.fp8 ? "fp8" : "batched") +
                           " products");
  const auto type = [&](const plan::View& v) { return plan.buffers[v.buffer].dtype; };
  return {a.m,
          a.n,
          a.k,
          a.trans_a,
          a.trans_b,
          type(plan::in<plan::OpKind::gemm>(op, "A")),
          type(plan::out<plan::OpKind::gemm>(op, "C")),
          static_cast<bool>(plan::in<plan::OpKind::gemm>(op, "bias")),
          a.accumulate,
          a.tf32,
          Fused::none,
          a.scale,
          alignment_of(x)};
}

std::string text_of(const GemmKey& k) {
  std::string s = std::string(k.trans_a ? "T" : "N") + (k.trans_b ? "T" : "N") + " " + std::to_string(k.m) +
                  "x" + std::to_string(k.n) + "x" + std::to_string(k.k) + " " + name_of(k.in) + "->" +
                  name_of(k.out);
  if (k.tf32) s += " tf32";
  if (k.bias) s += " +bias";
  if (k.accumulate) s += " +=";
  if (k.scale != 1) s += " x" + std::to_string(k.scale);
  if (k.fused != Fused::none) s += std::string(" ") + name_of(k.fused);
  return s + " on " + std::to_string(k.align) + " bytes";
}

cublasLtEpilogue_t epilogue_of(const GemmKey& k) {
  switch (k.fused) {
    case Fused::none:
      return k.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Fused::gelu:
      return k.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Fused::gelu_gradient:  // DGELU_BGRAD would give sums in 16 bits
      return CUBLASLT_EPILOGUE_DGELU;
    case Fused::bias_gradient:  // of its second operand, our first
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  throw std::logic_error("no such epilogue");
}

ColumnMajor column_major(const GemmKey& k) {
  return {k.n, k.m, k.k, k.trans_b, k.trans_a, k.trans_b ? k.k : k.n, k.trans_a ? k.m : k.k, k.n};
}

}  // namespace isobar::cuda
