// Our own kernels, one function each: they enqueue on `stream` and return. Semantics are those of
// model/backend/cpu/isa/kernels.h; statistics and sums are f32 (losses and gradient norms: double), in a
// fixed order, so results are reproducible. Matrices are row-major. `act` is the type of activations: f32,
// bf16 or f16. Threads access 16 bytes where pointers and widths allow it, else one element. Workspaces are
// those of workspace.h.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "model/backend/shapes.h"
#include "model/base/dtype.h"
#include "model/base/philox.h"
#include "model/base/spec/settings.h"
#include "model/base/system/host_device.h"
#include "model/plan/parameter_groups.h"

namespace isobar::cuda {

using namespace shapes;

// ---- norm.cu ----------------------------------------------------------------------------------------------
/// x = residual + y (y null: x = residual, not written); h = LayerNorm(x) gamma + beta
void residual_norm(const ResidualNorm& p, const void* residual, const void* y, const float* gamma,
                   const float* beta, void* x, void* h, float* mean, float* rstd, cudaStream_t stream);
/// dx (+)= LayerNorm'(dh), dy = dx as act; dgamma, dbeta, dbias [cols] (+)= their column sums; dy and dbias
/// may be null.
void residual_norm_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, bool first, void* dy, float* dgamma,
                            float* dbeta, float* dbias, bool accumulate, float* workspace,
                            cudaStream_t stream);

/// h = LayerNorm(x) gamma + beta, y = residual + h; h, y and residual may be null
void norm_residual(const ResidualNorm& p, const void* x, const float* residual, const float* gamma,
                   const float* beta, void* h, float* y, float* mean, float* rstd, cudaStream_t stream);
/// dx = LayerNorm'(dh), as act; sums and workspace as above
void norm_residual_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, float* dgamma, float* dbeta,
                            float* dbias, bool accumulate, float* workspace, cudaStream_t stream);

// ---- rms_norm.cu ------------------------------------------------------------------------------------------
void rms_norm(const RmsNorm& p, const void* residual, const void* y, const float* gamma, void* x, void* h,
              float* rstd, cudaStream_t stream);
/// dx (+)= RMSNorm'(dh), dy = dx as act (may be null), dgamma [cols] (+)= its column sums (may be null)
void rms_norm_backward(const RmsNorm& p, const void* x, const float* rstd, const float* gamma, const void* dh,
                       void* dx, bool first, void* dy, float* dgamma, bool accumulate, float* workspace,
                       cudaStream_t stream);

// ---- language.cu ------------------------------------------------------------------------------------------
/// u [rows, 2 cols]: gate, then up; scale [rows] (may be null): factors of the rows, and their gradient; held
/// (may be null): the number of rows that hold data, of at most `rows`
void swiglu(int64_t rows, int64_t cols, DType act, const void* u, const float* scale, const int32_t* held,
            void* g, cudaStream_t stream);
void swiglu_backward(int64_t rows, int64_t cols, DType act, const void* u, const void* dg, const float* scale,
                     const int32_t* held, void* du, float* dscale, cudaStream_t stream);
void rotary(const Rotary& p, bool backward, const float* table, void* x, cudaStream_t stream);
/// Operands as in the CPU's latent_heads
void latent_heads(const LatentHeads& p, const float* table, const void* q, const void* kv, const void* key,
                  void* qkv, cudaStream_t stream);
void latent_heads_backward(const LatentHeads& p, const float* table, const void* dqkv, void* dq, void* dkv,
                           void* dkey, cudaStream_t stream);
void embedding(const Embedding& p, const int32_t* words, const void* table, const void* positions, void* x,
               cudaStream_t stream);
void embedding_backward(const Embedding& p, const int32_t* words, const void* dx, float* dtable,
                        float* dpositions, int64_t positions, AddsTo adds, cudaStream_t stream);

// ---- graph.cu ---------------------------------------------------------------------------------------------
/// y[b, r] = base[b, r] + table[b, index[r]] + table2[b, index2[r]]; base and table2 may be null, y the base;
/// an index below 0 adds nothing
void gather(const Gather& p, const void* base, const void* table, const int32_t* index, const void* table2,
            const int32_t* index2, void* y, cudaStream_t stream);
/// y[b, s] = sum of x[b, order[i]], offsets[s] <= i < offsets[s + 1], in order; order null: i itself
void segment_sum(const SegmentSum& p, const void* x, const int32_t* offsets, const int32_t* order, void* y,
                 cudaStream_t stream);

// ---- columns.cu: passes with column sums ------------------------------------------------------------------
void activation_backward(Activation f, int64_t rows, int64_t cols, DType act, const void* u, const void* dg,
                         void* du, float* dbias, bool accumulate, float* workspace, cudaStream_t stream);
void column_sum(int64_t rows, int64_t cols, DType t, const void* x, float* sum, bool accumulate,
                float* workspace, cudaStream_t stream);
void period_sum(int64_t rows, int64_t cols, int64_t period, int64_t row0, const float* dx, float* dpos,
                bool accumulate, cudaStream_t stream);
/// out[i][c] (+)= sum over p < parts of partials[p][i][c], for i < outs, c < cols; out[i] may be null
struct Sums {
  float* out[3];
};
void add_partials(int parts, int outs, int64_t cols, const float* partials, const Sums& sums, bool accumulate,
                  cudaStream_t stream);

// ---- pointwise.cu -----------------------------------------------------------------------------------------
/// `of_stream`: type of the residual and x: f32, or act
void residual_add(int64_t n, DType act, const void* residual, const void* y, void* x, DType of_stream,
                  cudaStream_t stream);
void activation(Activation f, int64_t n, DType act, const void* u, void* g, cudaStream_t stream);
void cast(int64_t n, DType from, DType to, const void* x, void* y, bool accumulate, cudaStream_t stream);
void copy(const Copy& c, const void* x, void* y, cudaStream_t stream);

/// Finite numbers for all 16- and 32-bit types, for timing: bytes / 4 words
void fill_noise(int64_t bytes, void* x, cudaStream_t stream);

// ---- images.cu, roll.cu, loss.cu --------------------------------------------------------------------------
void patch_gather(const Patch& s, const float* image, void* patches, cudaStream_t stream);
void roll(const Patch& s, const Roll& r, const void* prediction, const void* before, const float* forcing,
          void* patches, cudaStream_t stream);
void unroll(const Patch& s, const Roll& r, const void* patches, void* prediction, void* carried,
            cudaStream_t stream);

constexpr int kMaxChannels = 256;
struct Loss {
  using Kind = LossKind;  // but projection
  Kind kind = Kind::relative_l2;
  float delta = 1;
  float weight[kMaxChannels];  // by channel
  // factor `intense` for elements whose target exceeds `above`
  float above[kMaxChannels], intense[kMaxChannels];
  const float* rows = nullptr;  // [H], with mean 1: weights of the rows' errors (base/latitude.h); null: all
                                // 1
  bool by_rows = false;         // `rows` also weighs the loss. Not for relative_l2
  bool masked = false;          // sums include the number of points that count (base/loss_sums.h) …
  const float* mask = nullptr;  // … those where this is not 0 [B, C, H, W]; unused by loss()
};
void loss_sums(const Patch& s, const void* pred, const float* target, float* sums, const Loss& l,
               double* workspace, cudaStream_t stream);
/// metrics[0] += weight * mean loss, metrics[1 + c] += weight * mean RMSE, without the kPadding samples of
/// `scalars` (may be null)
void loss(const Patch& s, const float* sums, float weight, const float* scalars, float* metrics,
          const Loss& l, cudaStream_t stream);
/// `scalars`: the loss is also scaled by their kLossScale; may be null
void loss_backward(const Patch& s, const void* pred, const float* target, const float* sums, float scale,
                   const float* scalars, void* dpred, const Loss& l, cudaStream_t stream);

// ---- experts.cu, grouped_gemm.cu --------------------------------------------------------------------------
/// bias [experts]: of sigmoids, for the choice; may be null. counts [ranks, samples, 2, experts]: sums of
/// each rank, needed with ranks_before
void route(const Route& r, const float* logits, const float* bias, const float* counts, const Routing& to,
           cudaStream_t stream);
/// `scalars` (may be null) has kPadding and, for f16, kLossScale.
void route_backward(const Route& r, const float* logits, const Routing& of, const float* dweights,
                    const float* scalars, DType act, void* dlogits, cudaStream_t stream);
void router_metrics(const Route& r, const float* sums, float weight, const float* scalars, float* metrics,
                    float* load, cudaStream_t stream);
/// `taken` (may be null): the number of copies that have a row of x
void combine(int64_t rows, int64_t cols, int64_t top, DType act, const void* x, const int32_t* place,
             const int32_t* taken, void* y, cudaStream_t stream);
struct GroupedGemm {
  int64_t m, n, k, groups;
  bool trans_a, trans_b, accumulate;
  DType operands, result;  // result: f32, or as the operands
  bool tf32;
};
void grouped_gemm(const GroupedGemm& p, const int32_t* offsets, const void* A, const void* B, void* C,
                  cudaStream_t stream);

// ---- cross_entropy.cu -------------------------------------------------------------------------------------
void cross_entropy_max(const Classes& c, const void* logits, float* largest, cudaStream_t stream);
void cross_entropy_sums(const Classes& c, const void* logits, const void* labels, const float* largest,
                        float* sums, cudaStream_t stream);
/// `metrics`: the loss and, if `scored`, the accuracy. `scalars` (may be null) has kPadding and, for f16,
/// kLossScale. workspace: [2, rows] f32
void cross_entropy(const Classes& c, const void* logits, const void* labels, const float* largest,
                   const float* sums, float weight, const float* scalars, void* dlogits, float* metrics,
                   bool scored, float* workspace, cudaStream_t stream);

// ---- dropout.cu -------------------------------------------------------------------------------------------
/// `scalars` has the step and kTraining. `mask` [n] bytes: 1 where x is kept; may be null (each > 1: it is).
void dropout(const DropoutDraw& draw, const float* scalars, int64_t first, int64_t n, int64_t each, DType act,
             void* x, uint8_t* mask, cudaStream_t stream);
/// The same by a mask that dropout() has written
void dropout_by_mask(float rate, const float* scalars, const uint8_t* mask, int64_t n, DType act, void* x,
                     cudaStream_t stream);

// ---- optimizer.cu -----------------------------------------------------------------------------------------
void squared_sum(int64_t n, const void* x, DType t, float* sum, bool accumulate, double* workspace,
                 cudaStream_t stream);
void loss_scale(float least, int64_t window, float* norm2, float* scalars, cudaStream_t stream);
/// Runs of elements with their own factors on rate and decay; null: none.
struct Groups {
  const plan::ParameterGroup* of = nullptr;
  int count = 0;
};
struct Adam {
  float beta1, beta2, eps, weight_decay;
  bool adamw;
  float grad_clip;  // only if norm2 is given
};
void adam(const Adam& a, int64_t n, const void* g, DType type_g, const float* scalars, const float* norm2,
          float* p, float* m, float* v, void* p16, DType type16, const Groups& groups, cudaStream_t stream);
struct Sgd {
  float momentum, weight_decay, grad_clip;
};
void sgd(const Sgd& s, int64_t n, const void* g, DType type_g, const float* scalars, const float* norm2,
         float* p, float* buf, void* p16, DType type16, const Groups& groups, cudaStream_t stream);
/// average += rate (x - average), unless the step of `scalars` is skipped
void average(int64_t n, float rate, const float* x, const float* scalars, float* average,
             cudaStream_t stream);
void swap(int64_t n, float* x, float* y, cudaStream_t stream);

// ---- attention_*.cu ---------------------------------------------------------------------------------------
struct Attention {
  int64_t batch, heads, kv_heads, tq, tk, d;
  float scale;
  bool causal;
  DType act;
  int64_t ld_q, ld_kv, ld_o;
  bool tf32;
  bool deterministic = false;  // sums in a fixed order, as our own kernels' are but Hopper's
  float last_more =
      0;  // added to the last key's unscaled scores, which multiplies its weight by exp(scale x this)
  int64_t token0 = -1;  // causal: place of the first query among the keys; -1: tk - tq
  int64_t window = 0;   // causal: keys that a query sees at most, the last ones; 0: all
  bool biased = false;
  const float* bias = nullptr;  // [heads, tk, tq], added to the scaled scores of every sample
  ISOBAR_HOST_DEVICE int64_t shift() const { return token0 < 0 ? tk - tq : token0; }
  /// Keys [first_key, end_of_keys) are visible to a query, queries [first_query, end_of_queries) see a key;
  /// the ends may lie outside
  ISOBAR_HOST_DEVICE int64_t end_of_keys(int64_t query) const {
    return causal && query + shift() + 1 < tk ? query + shift() + 1 : tk;
  }
  ISOBAR_HOST_DEVICE int64_t first_key(int64_t query) const {
    return window > 0 && query + shift() + 1 > window ? query + shift() + 1 - window : 0;
  }
  ISOBAR_HOST_DEVICE int64_t first_query(int64_t key) const {
    return causal && key > shift() ? key - shift() : 0;
  }
  ISOBAR_HOST_DEVICE int64_t end_of_queries(int64_t key) const {
    return window > 0 && key + window - shift() < tq ? key + window - shift() : tq;
  }
};
constexpr int64_t kMaxHeadDim = 256;  // largest d of all kernels below
/// f32 arithmetic without tensor cores: for strict f32, and as the reference of the others
void attention_simt(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                    cudaStream_t stream);
/// workspace: rowsum(dO * O), [batch, heads, tq] f32
void attention_simt_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                             const float* lse, const void* d_o, void* dq, void* dk, void* dv,
                             float* workspace, cudaStream_t stream);
/// On tensor cores, for all types; f32 operands are rounded to tf32. Workspace as above.
void attention_mma(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                   cudaStream_t stream);
void attention_mma_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                            const float* lse, const void* d_o, void* dq, void* dk, void* dv, float* workspace,
                            cudaStream_t stream);
/// The bias's gradient [heads, tk, tq]; delta: as attention_delta() has left it in backward's workspace
void attention_dbias(const Attention& a, const void* q, const void* k, const void* v, const float* lse,
                     const void* d_o, const float* delta, float* dbias, cudaStream_t stream);
/// rowsum(dO * O), [batch, heads, tq]
void attention_delta(const Attention& a, const void* o, const void* d_o, float* delta, cudaStream_t stream);
void attention_merge(const Attention& a, bool first, const void* o, const float* lse, float* o_sum,
                     float* lse_sum, cudaStream_t stream);

}  // namespace isobar::cuda
