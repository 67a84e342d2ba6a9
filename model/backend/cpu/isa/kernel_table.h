// The kernels that exist once per instruction set: each isa_*.cpp fills a table, and kernels() is the best
// this CPU runs. All are serial: drivers (attention.cpp, norm.cpp, …) split the work over threads.
//
//   kernels().activation_forward[of(Activation::gelu)][of(act)](n, u, g);
#pragma once
#include <cstdint>

#include "model/backend/cpu/attention/attention_layout.h"
#include "model/backend/cpu/gelu_tables.h"
#include "model/backend/cpu/isa/kernels.h"

namespace isobar::cpu {

constexpr int64_t kLinearTerms = 128;  // most terms of linear_rows: its packed weight stays in cache
constexpr int64_t kFewOutputs = 4;     // up to this many are dot products

// Adam's scalars, computed once in double precision
struct AdamFactors {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float grad_scale;
  float decay;   // L2: weight_decay; AdamW: 0
  float shrink;  // AdamW: -lr weight_decay, added to 1 in the kernel; else 0
  float step_size, inverse_sqrt_correction2, eps;
};

// Index of a kernel's variant
inline int of(DType t) {
  return t == DType::bf16 ? 1 : t == DType::f16 ? 2 : 0;
}
constexpr int of(Activation f) {
  return static_cast<int>(f);
}
inline int of(const Attention& a) {
  return a.tf32 ? 3 : of(a.act);
}

// [3]: activations in f32, bf16, f16; [4]: also f32 with tf32 products
struct KernelTable {
  void (*attention_forward[4])(const AttentionArgs&, int64_t first, int64_t last, float* workspace);
  void (*attention_backward[4])(const AttentionArgs&, int64_t first, int64_t last, float* workspace);
  void (*attention_dq_shared[4])(const AttentionArgs&, int64_t group, int64_t at, float* const* parts,
                                 int count);
  // C[m, n] (+)= A[m, pairs] B[pairs, n], bf16 in pairs, over whole tiles of 16; null without tiles
  void (*tile_product)(int64_t m, int64_t n, int64_t pairs, const float* a, int64_t lda, const float* b,
                       int64_t ldb, float* c, int64_t ldc, bool add);
  // y[m, n] = x[m, k] w[n, k]^T + bias[n] in f32, w packed; n: a multiple of 16, or at most kFewOutputs;
  // k <= kLinearTerms
  void (*pack_linear)(int64_t n, int64_t k, const float* w, float* columns);
  void (*linear_rows)(int64_t m, int64_t n, int64_t k, const float* x, const float* columns,
                      const float* bias, float* y);
  void (*activation_forward[kActivations][3])(int64_t n, const void* u, void* g);
  void (*activation_backward[kActivations][3])(int64_t rows, int64_t cols, const void* u, const void* dg,
                                               void* du, float* column_sums);
  void (*column_sum[3])(int64_t rows, int64_t cols, const void* x, float* column_sums);
  void (*cast[3][3])(int64_t n, const void* x, void* y);  // [from][to]
  void (*round_tf32)(int64_t n, const float* x, float* y);
  void (*add)(int64_t n, const float* x, float* y);
  // y[cols, rows] = x[rows, cols]; ld: elements between rows
  void (*transpose)(int64_t rows, int64_t cols, const float* x, int64_t ld_x, float* y, int64_t ld_y);
  void (*normalise)(int64_t n, const float* x, const float* mean, const float* std, float* y);
  double (*squared_sum)(int64_t n, const float* x);
  // sums of (guess - truth)^2 and of truth^2
  void (*squares)(int64_t n, const float* guess, const float* truth, float sums[2]);
  // [2]: 16-bit copy in bf16, in f16
  void (*adam[2])(const AdamFactors&, int64_t n, float* p, const float* g, float* m, float* v, void* p16);
  void (*sgd[2])(const Sgd&, int64_t n, float* p, const float* g, float* buf, void* p16);
  void (*norm_forward[3][2])(const ResidualNorm&, int64_t row0, int64_t row1, const void* residual,
                             const void* y, const float* gamma, const float* beta, void* x_out, void* h,
                             float* mean, float* rstd);
  void (*norm_backward[3][2])(const ResidualNorm&, int64_t row0, int64_t row1, const void* x,
                              const float* mean, const float* rstd, const float* gamma, const void* dh,
                              void* dx, bool first, void* dy_act, float* sums);
  void (*norm_residual[3])(const ResidualNorm&, int64_t row0, int64_t row1, const void* x,
                           const float* residual, const float* gamma, const float* beta, void* h, float* y,
                           float* mean, float* rstd, float* row);
  void (*rms_norm[3][2])(const RmsNorm&, int64_t row0, int64_t row1, const void* residual, const void* y,
                         const float* gamma, void* x, void* h, float* rstd);
  void (*rms_norm_backward[3][2])(const RmsNorm&, int64_t row0, int64_t row1, const void* x,
                                  const float* rstd, const float* gamma, const void* dh, void* dx, bool first,
                                  void* dy_act, float* sums);
  void (*swiglu[3])(int64_t rows, int64_t cols, const void* u, const float* scale, void* g);
  void (*swiglu_backward[3])(int64_t rows, int64_t cols, const void* u, const void* dg, const float* scale,
                             void* du, float* dscale);
  // [2]: turned forwards, backwards
  void (*rotary[3][2])(const Rotary&, int64_t row0, int64_t row1, const float* table, void* x);
  // n logits of a row: their largest value (NaN if one is), the sum of exp(x - largest), and
  // y = factor exp(x - largest)
  float (*largest[3])(int64_t n, const void* x);
  double (*exponentials[3])(int64_t n, const void* x, float largest);
  void (*softmax[3])(int64_t n, const void* x, float largest, float factor, void* y);
  // [2]: base as activations, or in f32
  void (*gather[3][2])(const Gather&, int64_t row0, int64_t row1, const void* base, const void* table,
                       const int32_t* index, const void* table2, const int32_t* index2, void* y);
  void (*segment_sum[3])(const SegmentSum&, int64_t s0, int64_t s1, const void* x, const int32_t* offsets,
                         const int32_t* order, void* y);
};

enum class Isa : uint8_t { portable, avx2, avx512, avx512_bf16, amx };
const char* name_of(Isa isa);

const KernelTable& portable_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();
const KernelTable& avx512_bf16_kernels();
const KernelTable& amx_kernels();  // the same, and bf16 attention on tiles
// The same attention emulated, slowly: on any CPU, and with AVX-512's vectors
const KernelTable& plain_tile_kernels();
const KernelTable& plain_tile_avx512_kernels();

/// The best of this CPU that ISOBAR_MAX_ISA (portable, avx2, avx512, avx512_bf16, amx; read once) allows.
Isa best_isa();
/// best_isa() unless a test chose less.
Isa current_isa();
void use_isa(Isa isa);   // for tests; throws std::invalid_argument if the CPU lacks it
void use_plain_tiles();  // for tests, until the next use_isa; with the current vectors
const KernelTable& kernels();

}  // namespace isobar::cpu
