// Matrix products by cuBLASLt. What algorithm a shape gets is decided once, before the first step: cuBLASLt's
// heuristic, or the fastest of its first candidates by timing.
//
//   Gemms gemms(GemmChoice::heuristic);
//   gemms.prepare(key_of(op, plan, operands), operands, workspace, bytes, stream);     // once a shape
//   gemms.run(key_of(op, plan, operands), operands, workspace, bytes, stream);
//
// Row-major C[m,n] = op(A) op(B) is for cuBLASLt, which thinks in columns, C' = op(B)' op(A)': its first
// operand is our second, and the bias lies along its rows, where its epilogue adds it.
#pragma once
#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>
#include <string>

#include "model/backend/cuda/libraries/fusion.h"
#include "model/backend/cuda/runtime/library.h"
#include "model/plan/plan.h"

namespace isobar::cuda {

struct GemmKey {  // all that an algorithm's choice depends on
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  DType in = DType::f32, out = DType::f32;  // of A and B; of C
  bool bias = false, accumulate = false, tf32 = false;
  Fused fused = Fused::none;
  float scale = 1;  // of the product
  int align = 16;   // bytes that all operands lie on; no access is wider than 16
  auto operator<=>(const GemmKey&) const = default;  // NOLINT(modernize-use-nullptr): its own 0
};
struct GemmOperands {
  const void *a, *b;
  const void* bias;  // in the type of C
  void* c;
  void* aux = nullptr;    // gelu: the result before it (C: after); gelu_gradient: what gelu was taken of
  float* sums = nullptr;  // bias_gradient: column sums of A
};
/// Throws std::logic_error for what the GPU does not run: batched products and fp8.
GemmKey key_of(const Op& op, const Plan& plan, const GemmOperands& x);
int alignment_of(const GemmOperands& x);
std::string text_of(const GemmKey& key);  // "NT 1024x384x1536 bf16->f32 +="

/// How the product looks to cuBLASLt: C' [rows, cols], first operand B, second A.
struct ColumnMajor {
  int64_t rows, cols, inner;
  bool trans_first, trans_second;
  int64_t ld_first, ld_second, ld_out;
};
ColumnMajor column_major(const GemmKey& key);
/// What cuBLASLt is to do beside: bias, GELU, gradients.
cublasLtEpilogue_t epilogue_of(const GemmKey& key);

enum class GemmChoice : uint8_t { heuristic, timed };

class Gemms {
 public:
  /// `sms`: multiprocessors that products are chosen for, where others keep the rest busy; 0: the device's
  explicit Gemms(GemmChoice choice, int sms = 0);
  ~Gemms();
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;

  /// Makes the table's entry for a shape; false if cuBLASLt has no algorithm for it. Timing runs the product
  /// on what lies in the operands.
  bool prepare(const GemmKey& key, const GemmOperands& x, void* workspace, int64_t bytes,
               cudaStream_t stream);
  /// `bytes`: of the workspace, no fewer than it was prepared with
  void run(const GemmKey& key, const GemmOperands& x, void* workspace, int64_t bytes,
           cudaStream_t stream) const;
  float milliseconds(const GemmKey& key) const;  // that a run took when it was timed
  size_t shapes() const { return table_.size(); }
  int sms() const { return sms_; }
  /// What cuBLASLt's descriptor of a product says of multiprocessors (0: the device's); needs no GPU.
  static int sms_in_descriptor(const GemmKey& key, int sms);
  static std::string library_version();  // "13.1.0"; opens the library, needs no GPU

 private:
  struct Api;
  struct Product;  // descriptors and algorithm of one shape
  void launch(const Product& p, const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& x, void* workspace,
              int64_t bytes, cudaStream_t stream) const;
  std::unique_ptr<Api> api_;
  GemmChoice choice_;
  int sms_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<GemmKey, std::unique_ptr<Product>> table_;
};

}  // namespace isobar::cuda
