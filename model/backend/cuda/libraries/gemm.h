// Matrix products by cuBLASLt. A shape's algorithm is chosen once, before the first step: cuBLASLt's
// heuristic, or the fastest of its first candidates by timing.
//
//   Gemms gemms(GemmChoice::heuristic);
//   gemms.prepare(key_of(op, plan, operands), operands, workspace, bytes, stream);     // once a shape
//   gemms.run(key_of(op, plan, operands), operands, workspace, bytes, stream);
//
// cuBLASLt is column-major: row-major C[m,n] = op(A) op(B) becomes C' = op(B)' op(A)', so its first operand
// is our second, and the bias runs along its rows, as its epilogue adds it.
#pragma once
#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>
#include <string>

#include "model/backend/cuda/libraries/fusion.h"
#include "model/backend/cuda/runtime/library.h"
#include "model/base/spec/settings.h"
#include "model/plan/plan.h"

namespace isobar::cuda {

struct GemmKey {  // all that the choice of an algorithm depends on
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  DType in = DType::f32, out = DType::f32;  // of A and B; of C
  bool bias = false, accumulate = false, tf32 = false;
  Fused fused = Fused::none;
  float scale = 1;                                   // of the product
  int align = 16;                                    // common alignment of operands in bytes, at most 16
  auto operator<=>(const GemmKey&) const = default;  // NOLINT(modernize-use-nullptr): its own 0
};
struct GemmOperands {
  const void *a, *b;
  const void* bias;  // in the type of C
  void* c;
  void* aux = nullptr;    // gelu: the result before it (C: after); gelu_gradient: gelu's input
  float* sums = nullptr;  // bias_gradient: column sums of A
};
/// Throws std::logic_error for products that the GPU does not run: batched and fp8.
GemmKey key_of(const plan::Op& op, const plan::Plan& plan, const GemmOperands& x);
int alignment_of(const GemmOperands& x);
std::string text_of(const GemmKey& key);  // "NT 1024x384x1536 bf16->f32 +="

/// The product as cuBLASLt sees it: C' [rows, cols], first operand B, second A.
struct ColumnMajor {
  int64_t rows, cols, inner;
  bool trans_first, trans_second;
  int64_t ld_first, ld_second, ld_out;
};
ColumnMajor column_major(const GemmKey& key);
/// The epilogue: bias, GELU, gradients.
cublasLtEpilogue_t epilogue_of(const GemmKey& key);

class Gemms {
 public:
  /// `sms`: multiprocessors to choose products for, if others are kept busy; 0: the device's
  explicit Gemms(GemmChoice choice, int sms = 0);
  ~Gemms();
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;

  /// Chooses a shape's algorithm; false if cuBLASLt has none. Timing runs the product on the operands.
  bool prepare(const GemmKey& key, const GemmOperands& x, void* workspace, int64_t bytes,
               cudaStream_t stream);
  /// `bytes`: of the workspace, at least as in prepare()
  void run(const GemmKey& key, const GemmOperands& x, void* workspace, int64_t bytes,
           cudaStream_t stream) const;
  float milliseconds(const GemmKey& key) const;  // of a run, as timed
  size_t shapes() const { return table_.size(); }
  double timing_s() const { return timing_s_; }  // that the timing of algorithms took so far
  int sms() const { return sms_; }
  /// Multiprocessors in cuBLASLt's descriptor of a product (0: the device's); needs no GPU.
  static int sms_in_descriptor(const GemmKey& key, int sms);
  static std::string library_version();  // "13.1.0"; opens the library, needs no GPU

 private:
  struct Api;
  struct Product;  // descriptors and algorithm of one shape
  void launch(const Product& p, const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& x, void* workspace,
              int64_t bytes, cudaStream_t stream) const;
  std::unique_ptr<Api> api_;
  GemmChoice choice_;
  double timing_s_ = 0;
  int sms_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<GemmKey, std::unique_ptr<Product>> table_;
};

}  // namespace isobar::cuda
