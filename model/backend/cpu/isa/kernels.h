// The CPU kernels of ops, one function each. Matrices are row-major; pointers are 64-byte aligned unless they
// are views; kernels use OpenMP threads and allocate nothing after the first call with a shape. `DType act`
// is the type of activations (f32, or bf16 or f16 under AMP); statistics, residuals, parameters and their
// gradients are f32. Results are bit-identical between runs with the same number of threads. Denormals are
// zeros, as operands and as results (base/system/denormals.h).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "model/backend/shapes.h"
#include "model/base/dtype.h"
#include "model/base/philox.h"
#include "model/base/spec/settings.h"

namespace isobar::cpu {

using namespace shapes;

// ---- gemm.cpp ---------------------------------------------------------------------------------------------
struct Gemm {  // C[m,n] = op(A)[m,k] op(B)[k,n] + bias[n] (+ C when accumulate)
  int64_t m, n, k;
  bool trans_a, trans_b;  // A stored [k,m], B stored [n,k]
  DType a, b, c;          // f32,f32,f32 | bf16,bf16,bf16 | bf16,bf16,f32 | f16,f16,f16 | f16,f16,f32
  bool bias;              // bias is f32 [n]
  bool accumulate;
  bool tf32 = false;  // f32 only: A and B are first rounded to tf32
  float scale = 1;    // of the product, which then has no bias
};
void gemm(const Gemm& g, const void* A, const void* B, const float* bias, void* C);
// Always by oneDNN (or its emulation): the baseline for own kernels
void gemm_by_library(const Gemm& g, const void* A, const void* B, const float* bias, void* C);
// The kernel, "oneDNN 2.6.3, brg:avx512_core_bf16"
std::string gemm_kernel(const Gemm& g);
// Bytes of scratch: scratchpads of the primitives, or f32 copies for an emulated product. What dnnl_sgemm
// packs into (f32) is unknown and not counted.
int64_t gemm_workspace(const Gemm& g);

// ---- layers.cpp -------------------------------------------------------------------------------------------
struct Layer {  // f(x[m, k] w[n, k]^T + bias[n]) in f32
  int64_t n, k;
  const float *weight, *bias;
  std::optional<Activation> activation;  // absent: identity
};
// False if gemm() is as fast or faster for layers of these sizes over m rows.
bool takes_layer(int64_t m, int64_t n, int64_t k);
// y [m, n of the last] = x [m, k of the first] through all layers, a few rows at a time, so that intermediate
// results stay in the L1 cache. Bitwise equal to gemm() and activation_forward() in turn, and independent of
// the number of rows. n: multiples of 16 or at most 4; k: at most 128
void layers(int64_t m, std::span<const Layer> layers, const float* x, float* y);

// ---- attention*.cpp: softmax(q k^T * scale) v without ever holding Tq x Tk --------------------------------
struct Attention {
  int64_t batch, heads, kv_heads, tq, tk, d;  // kv_heads divides heads
  float scale;                                // > 0
  bool causal;                                // query i sees keys j <= i + shift() …
  DType act;
  // elements between rows (tokens) of q, of k and v, of o and d_o; head h starts at column h*d
  int64_t ld_q, ld_kv, ld_o;
  bool tf32 = false;        // f32 only: operands of all products are first rounded to tf32
  int64_t last_counts = 1;  // multiplicity of each sample's last key and value
  int64_t token0 = -1;      // causal: place of the first query among the keys; -1: tk - tq
  int64_t window = 0;       // … and j > i + shift() - window; 0: from the first on
  // Added to the scaled scores of every sample, and its gradient (nullptr: unused): [heads, tk, tq] f32
  bool biased = false;
  const float* bias = nullptr;
  float* dbias = nullptr;
  int64_t shift() const { return token0 < 0 ? tk - tq : token0; }
};
// q [batch*tq, ld_q], k and v [batch*tk, ld_kv], o [batch*tq, ld_o], lse [batch, heads, tq] f32
void attention_forward(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                       void* workspace);
// dq, dk, dv have the layout of q, k, v (ld_dq, ld_dkv) and are overwritten
void attention_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                        const float* lse, const void* d_o, void* dq, void* dk, void* dv, int64_t ld_dq,
                        int64_t ld_dkv, void* workspace);
// Merges o and lse over some keys into o_sum (f32, with rows like o) and lse_sum over others. `first`: writes
// them.
void attention_merge(const Attention& a, bool first, const void* o, const float* lse, float* o_sum,
                     float* lse_sum);
int64_t attention_workspace(const Attention& a, bool backward, int threads);  // bytes

// ---- norm.cpp ---------------------------------------------------------------------------------------------
// x_out = residual + y (without the norm: residual_add); h = LayerNorm(x_out) * gamma + beta. residual [rows
// or period, cols] stream, y [rows, cols] act (nullptr: x_out = residual, not written), x_out stream, h act,
// mean and rstd [rows] f32
void residual_norm_forward(const ResidualNorm& p, const void* residual, const void* y, const float* gamma,
                           const float* beta, void* x_out, void* h, float* mean, float* rstd);
void residual_add(int64_t n, DType act, const void* residual, const void* y, void* x,
                  DType stream = DType::f32);
// dx (stream, in and out) += LayerNorm'(dh), written if `first`. dy_act = dx as act (may be nullptr, used
// under AMP); dgamma, dbeta [cols] and dbias[cols] = column sums of dx (may be nullptr), added to if
// `accumulate`. x is x_out of the forward.
void residual_norm_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, bool first, void* dy_act,
                            float* dgamma, float* dbeta, float* dbias, bool accumulate);

// h = LayerNorm(x) gamma + beta and y = residual + h; h, y and residual may be nullptr. x, h act, residual
// and y f32, mean and rstd [rows] f32; p.period is unused.
void norm_residual(const ResidualNorm& p, const void* x, const float* residual, const float* gamma,
                   const float* beta, void* h, float* y, float* mean, float* rstd);
// dx = LayerNorm'(dh), act like x and dh; the sums as in residual_norm_backward
void norm_residual_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, float* dgamma, float* dbeta,
                            float* dbias, bool accumulate);

// ---- rms_norm.cpp (Zhang 2019) ----------------------------------------------------------------------------
// x = residual + y; h = x rstd gamma with rstd = 1 / sqrt(mean(x^2) + eps). Operands as in
// residual_norm_forward; y nullptr: x = residual, not written
void rms_norm(const RmsNorm& p, const void* residual, const void* y, const float* gamma, void* x, void* h,
              float* rstd);
// dx += RMSNorm'(dh), written if `first`; dy_act = dx as act (may be nullptr); dgamma [cols] (may be
// nullptr), added to if `accumulate`
void rms_norm_backward(const RmsNorm& p, const void* x, const float* rstd, const float* gamma, const void* dh,
                       void* dx, bool first, void* dy_act, float* dgamma, bool accumulate);

// ---- swiglu.cpp (Shazeer 2020) ----------------------------------------------------------------------------
// g [rows, cols] = silu(gate) up, where a row of u [rows, 2 cols] is gate, then up; all act. `scale` [rows]
// (may be nullptr): factors of the rows
void swiglu(int64_t rows, int64_t cols, DType act, const void* u, void* g, const float* scale = nullptr);
// du [rows, 2 cols] from dg [rows, cols]; with `scale` also its gradient
void swiglu_backward(int64_t rows, int64_t cols, DType act, const void* u, const void* dg, void* du,
                     const float* scale = nullptr, float* dscale = nullptr);

// ---- rotary.cpp: rotary position embedding (Su 2021), halves of a head as in GPT-NeoX and Llama -----------
// x [rows, ld] act in place: of a head (a, b), each d/2 wide, (a cos - b sin, b cos + a sin), or with -sin
// if `backward`. table [tokens, 2, d/2] f32: cosines, then sines, of a position
void rotary(const Rotary& p, bool backward, const float* table, void* x);

// ---- latent_heads.cpp: heads of latent attention (DeepSeek-V2) -------------------------------------------
// qkv [rows, 3 heads qk] from q [rows, heads, nope + rope], kv [rows, heads, nope + v] and the heads' common
// key [rows, rope] (lines of ld_key): rope columns are turned as rotary turns a head; values are followed by
// zeros. table [tokens, 2, rope/2]
void latent_heads(const LatentHeads& p, const float* table, const void* q, const void* kv, const void* key,
                  void* qkv);
void latent_heads_backward(const LatentHeads& p, const float* table, const void* dqkv, void* dq, void* dkv,
                           void* dkey);

// ---- embedding.cpp ----------------------------------------------------------------------------------------
// x [rows, cols] act = table[word - first] + positions[position]; table [words, cols] and positions (may be
// nullptr) [all tokens, cols] in `table`, words [rows] i32
void embedding(const Embedding& p, const int32_t* words, const void* table, const void* positions, void* x);
// dtable [words, cols] and dpositions [positions, cols] f32 (either may be nullptr): sums of dx (act) over
// the rows of a word, of a position, in the order of rows; `adds`: to what they hold
void embedding_backward(const Embedding& p, const int32_t* words, const void* dx, float* dtable,
                        float* dpositions, int64_t positions, AddsTo adds);

// ---- experts.cpp: mixtures of experts ---------------------------------------------------------------------
// bias [experts] (may be nullptr) is added to sigmoids for the choice; counts [ranks, samples, 2, experts]
// (needed with ranks_before): sums of each rank
void route(const Route& r, const float* logits, const float* bias, const float* counts, const Routing& to);
// dlogits [rows, experts] act = scale * d(router's losses) + d(weights) * dweights; rows of the last
// `padding` samples have no losses
void route_backward(const Route& r, const float* logits, const Routing& of, const float* dweights,
                    float scale, int64_t padding, DType act, void* dlogits);
// Adds `weight` times the sums over samples, without the last `padding`: to metrics[0] the largest expert's
// copies over the mean, to metrics[1] the balance loss, to metrics[2] the share of copies beyond the experts'
// capacity; to load [experts] (may be nullptr) the copies
void router_metrics(const Route& r, const float* sums, float weight, int64_t padding, float* metrics,
                    float* load);
// y [rows, cols] = the sum of the rows place[row, ...] of x that are below `end`, in their order
void combine(int64_t rows, int64_t cols, int64_t top, DType act, const void* x, const int32_t* place,
             int64_t end, void* y);
// (grouped_gemm.cpp) C rows of group g = A rows of g (as g.m, n, k with B's g-th matrix); with g.trans_a C
// has a matrix for each group, and sums run over its rows of A and B. Rows of g: [offsets[g], offsets[g + 1])
void grouped_gemm(const Gemm& g, int64_t groups, const int32_t* offsets, const void* A, const void* B,
                  void* C);

// ---- graph.cpp: rows by constant indices, shared by all samples of a batch --------------------------------
// y[b, r] = base[b, r] + table[b, index[r]] + table2[b, index2[r]]; base, and table2 with index2, may be
// nullptr; y may be the base. An index below 0 adds nothing.
void gather(const Gather& p, const void* base, const void* table, const int32_t* index, const void* table2,
            const int32_t* index2, void* y);
// y[b, s] = sum of x[b, order[i]] for i from offsets[s] to offsets[s + 1], in f32 and in this order; order
// nullptr: i itself
void segment_sum(const SegmentSum& p, const void* x, const int32_t* offsets, const int32_t* order, void* y);

// ---- pointwise.cpp ----------------------------------------------------------------------------------------
// g = f(u); gelu_tanh: u Phi(u) with Phi(u) = (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))) / 2
void activation_forward(Activation f, int64_t n, DType act, const void* u, void* g);
// du = dg * f'(u) [rows, cols] act; dbias[cols] = column sums of du
void activation_backward(Activation f, int64_t rows, int64_t cols, DType act, const void* u, const void* dg,
                         void* du, float* dbias, bool accumulate);
void column_sum(int64_t rows, int64_t cols, DType t, const void* x, float* sum, bool accumulate);
// dpos[period, cols] = sum over r of dx[r, :] with (row0 + r) % period; zero if no row falls there
void period_sum(int64_t rows, int64_t cols, int64_t period, int64_t row0, const float* dx, float* dpos,
                bool accumulate);
void copy(const Copy& c, const void* x, void* y);
void cast(int64_t n, DType from, DType to, const void* x, void* y);
void cast_add(int64_t n, DType from, DType to, const void* x, void* y);  // y += x, summed in f32
void round_tf32(int64_t n, const float* x, float* y);
void add(int64_t n, const float* x, float* y);  // y += x
// y = (x - mean) / std, on the calling thread; y may be x. Bitwise equal on every CPU.
void normalise(int64_t n, const float* x, const float* mean, const float* std, float* y);
double squared_sum(int64_t n, const void* x, DType t = DType::f32);  // fixed summation tree

// ---- patch.cpp --------------------------------------------------------------------------------------------
// image f32 [B,C,H,W] -> patches act [rows, C*p*p], columns (c, row, col): im2col with stride p
void patch_gather(const Patch& s, const float* image, void* patches);
/// patches [rows, C p p]: the newest time is the prediction [rows, p p C'] with the other channels from
/// forcing [B, C / history - C', H, W]; the older times are those of `before` without its oldest (may be in
/// place).
void roll(const Patch& s, const Roll& r, const void* prediction, const void* before, const float* forcing,
          void* patches);
/// The newest time's predicted channels, in the prediction's layout. `carried` (may be absent): all other
/// times moved on by one, the oldest zero: the history gradients of the previous step.
void unroll(const Patch& s, const Roll& r, const void* patches, void* prediction, void* carried);

// ---- loss.cpp: prediction as patches [rows, p*p*C], columns (row, col, c)
//
// Losses, averaged over the batch, with e = pred - target of a sample:
//   relative_l2   |e| / |target|, norms over the whole sample (NERSC ViT)
//   mae           mean of w_c |e|  over channels and pixels (Aurora's, with weights per variable)
//   mse           mean of w_c e^2
//   huber         mean of w_c h(e), h = e^2 / 2 where |e| <= delta, else delta (|e| - delta / 2)
//   projection    mean of pred * target: its gradient is the target, which makes the backward pass a product
//                 of that vector with the Jacobian (inference/jacobian.h); nothing trains on it
struct Loss {
  using Kind = LossKind;
  Kind kind = Kind::relative_l2;
  float delta = 1;
  const float* weights = nullptr;  // [C]; nullptr: all 1. Not for relative_l2
  // [C]: factor `intense` for elements whose target exceeds `above`; nullptr: none. Not for relative_l2
  const float *above = nullptr, *intense = nullptr;
  const double* rows = nullptr;  // [H], with mean 1: weights of the rows' errors (base/latitude.h); nullptr:
                                 // all 1
  bool by_rows = false;          // `rows` also weighs the loss. Not for relative_l2
  bool masked = false;           // sums include the number of points that count (base/loss_sums.h) …
  const float* mask =
      nullptr;  // … those where this is not 0 [B, C, H, W]; means are over them. Unused by loss()
};
// loss_sums: sums [B, 2 + C] f32 over this rank's rows (0 for samples without any): |pred - target|^2 (other
// losses: the sum of w_c |e|, …), |target|^2, and per channel sum_{h,w} w_h (pred - target)^2; with a mask
// only points that count. Ranks that share samples add up their sums before the next two.
void loss_sums(const Patch& s, const void* pred, const float* target, float* sums, const Loss& l = {});
// Adds `weight` times: to *loss the batch mean of sqrt(sums0 / sums1) (others: sums0 / (C H W)), to
// channel_rmse [C] the batch mean of sqrt(sums_c / (H W)); masked: over the points that count, and 0 if none
// does. The last `padding` samples add 0, and the batch size stays.
void loss(const Patch& s, const float* sums, float weight, float* loss, float* channel_rmse,
          const Loss& l = {}, int64_t padding = 0);
// dpred [rows, p*p*C] = scale * d(loss of the sample)/dpred, as act; 0 where |e| has no derivative or nothing
// counts
void loss_backward(const Patch& s, const void* pred, const float* target, const float* sums, float scale,
                   void* dpred, const Loss& l = {});

// ---- cross_entropy.cpp: -log softmax(logits)[label] of each row -------------------------------------------
// largest [rows] (-infinity: no column is a class); NaN where a logit is NaN
void cross_entropy_max(const Classes& c, const void* logits, float* largest);
// sums [2, rows]: of exp(logit - largest); the label's logit - largest, 0 if another rank holds it
void cross_entropy_sums(const Classes& c, const void* logits, const void* labels, const float* largest,
                        float* sums);
// dlogits = slope * d(loss of the row)/dlogits, as act; may be the logits. Adds `weight` times: to *loss the
// sum over the rows, to *accuracy (nullptr to skip) the number of rows whose first largest logit is the
// label's, without the last `padding` rows.
void cross_entropy(const Classes& c, const void* logits, const void* labels, const float* largest,
                   const float* sums, float weight, float slope, int64_t padding, void* dlogits, float* loss,
                   float* accuracy);
// Softmax alone: weights [rows, cols], which may be the logits
void softmax(int64_t rows, int64_t cols, const float* logits, float* weights);

// ---- dropout.cpp ------------------------------------------------------------------------------------------
// Multiplies x [n] by the numbers drawn for elements first, first + 1, …: forward and backward are the same.
// `each`: elements that share one of n numbers. `mask` [n] bytes (may be nullptr; each = 1): 1 where x is
// kept
void dropout(const DropoutDraw& draw, int64_t first, int64_t n, DType act, void* x, int64_t each = 1,
             uint8_t* mask = nullptr);
// The same by a mask that dropout() has written
void dropout_by_mask(float rate, const uint8_t* mask, int64_t n, DType act, void* x);

// ---- adam.cpp ---------------------------------------------------------------------------------------------
struct Adam {
  float lr, beta1, beta2, eps, weight_decay;  // decoupled when adamw, else L2 added to the gradient
  bool adamw;
  int64_t step;      // 1 on the first call (bias correction)
  float grad_scale;  // factor on gradients (unscale, clip)
};
// One pass over parameter, gradient (of any type) and both moments; also writes the 16-bit copy (bf16 or f16)
// unless nullptr
void adam(const Adam& a, int64_t n, float* p, const void* g, float* m, float* v, void* p16,
          DType type16 = DType::bf16, DType type_g = DType::f32);

struct LossScale {
  float least;
  int64_t window;  // steps without overflow after which the scale doubles
};
// Squared norm of scaled gradients -> of unscaled ones, and the step's scalars (plan.h). A norm that is not
// finite is an overflow: the step is skipped.
void loss_scale(const LossScale& p, float* norm2, float* scalars);

// ---- sgd.cpp ----------------------------------------------------------------------------------------------
struct Sgd {  // torch.optim.SGD without dampening and Nesterov
  float lr, momentum, weight_decay;
  float grad_scale;  // factor on gradients (unscale, clip)
};
// buf = momentum buf + (grad + weight_decay p); p -= lr buf. buf begins as zeros. p16 as in adam.
void sgd(const Sgd& s, int64_t n, float* p, const void* g, float* buf, void* p16, DType type16 = DType::bf16,
         DType type_g = DType::f32);

// ---- average.cpp ------------------------------------------------------------------------------------------
// average += rate (x - average), [n]
void average(int64_t n, float rate, const float* x, float* average);
void swap(int64_t n, float* x, float* y);

// ---- isa.cpp ----------------------------------------------------------------------------------------------
/// "amx", "avx512_bf16" or "emulated": how bf16 products run here. Recorded in every result.
const char* bf16_mode();
/// "emulated": f16 and tf32 products are f32 products of rounded operands on every CPU, for correctness only.
const char* f16_mode();
const char* tf32_mode();

}  // namespace isobar::cpu
