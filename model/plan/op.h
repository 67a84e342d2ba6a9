// One op = one library call or kernel launch of one rank. The vocabulary that all four readers of a plan
// share.
//
// An op names the operands it reads and writes as views into buffers; absent optional operands are View{}.
// Which operand stands where is the table beside each kind below. `Attrs` holds the sizes; what a kind does
// not use is 0.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/dtype.h"

namespace isobar {

// In-order queues. Sends and receives have lanes of their own in both directions: a transfer that waits for
// its peer then holds up nothing else, whatever order a schedule comes in.
enum class Lane : uint8_t {
  compute,
  tp,
  cp,
  dp,
  recv_forward,   // activations from the stage before
  send_forward,   // activations to the stage behind
  recv_backward,  // their gradients from the stage behind
  send_backward,  // their gradients to the stage before
  h2d,            // from host memory (offload) …
  d2h             // … and back
};
constexpr int kLanes = 10;

enum class OpKind : uint8_t {
  // kind                     reads                                      | writes
  fetch,                   // -                                          | input?, target?
  patch_gather,            // image                                      | patches
  gemm,                    // A, B, bias?                                | C
  attention,               // q, k, v                                    | o, lse, workspace
  attention_backward,      // q, k, v, o, lse, do                        | dq, dk, dv, workspace
  attention_merge,         // o, lse                                     | o, lse (f32; merged in by lse)
  residual_norm,           // residual, y?, gamma, beta                  | x?, h, mean, rstd
  residual_norm_backward,  // x, mean, rstd, gamma, dh                   | dx, dy?, dgamma, dbeta, dbias?
  residual_add,            // residual, y                                | x
  gelu,                    // u                                          | g
  gelu_backward,           // u, dg                                      | du, dbias
  column_sum,              // x                                          | sum
  period_sum,              // dx                                         | dpos
  loss_sums,               // pred, target                               | sums
  loss,                    // sums                                       | metrics
  loss_backward,           // pred, target, sums, scalars?               | dpred
  zero,                    // -                                          | x
  cast,                    // x                                          | y (accumulate: added to)
  copy,                    // x                                          | y (strided, same type)
  squared_sum,             // x                                          | sum
  loss_scale,              // squared norm, scalars                      | squared norm, scalars
  adam,                    // grad, scalars, squared norm?                | param, m, v, param16?
  sgd,                     // grad, scalars, squared norm?                | param, momentum, param16?
  // Without kernels so far: planned, placed and predicted (kernel_less)
  rms_norm,            // residual, y?, gamma                        | x?, h, rstd
  rms_norm_backward,   // x, rstd, gamma, dh                         | dx, dy?, dgamma
  swiglu,              // u (gate, up)                               | g
  swiglu_backward,     // u, dg                                      | du
  rotary,              // q and k                                    | q and k (in place)
  rotary_backward,     // dq and dk                                  | dq and dk (in place)
  dropout,             // x                                          | x (in place), mask?
  dropout_backward,    // dx, mask?                                  | dx (in place)
  softmax,             // scores                                     | weights, mask?, dropped?
  softmax_backward,    // weights, mask?, d weights                  | d scores
  embedding,           // tokens, table, positions?                  | x
  embedding_backward,  // tokens, dx                                 | d table, d positions?
  cross_entropy_max,   // logits                                     | largest of each row
  cross_entropy_sums,  // logits, labels, max                        | sums of each row
  cross_entropy,       // logits, labels, max, sums                  | gradient (over the logits), metrics
  all_reduce,          // x                                          | x (in place, sum)
  broadcast,           // x                                          | x (from the group's first rank)
  all_gather,          // part                                       | x (parts in group order)
  reduce_scatter,      // x (parts in group order)                   | part (sum)
  all_to_all,          // x (parts in group order)                   | y (parts in group order)
  exchange,            // x (to the group's next rank)               | y (from its previous rank)
  send,                // x                                          | - (group: sender, receiver)
  recv,                // -                                          | x (group: sender, receiver)
};
const char* name_of(OpKind k);
const char* name_of(Lane l);
bool is_collective(OpKind k);  // runs over the network, sends and receives too
bool kernel_less(OpKind k);    // no backend has a kernel for it

struct View {           // a run of elements of one buffer
  int32_t buffer = -1;  // -1: absent
  int64_t offset = 0;   // elements
  int64_t count = 0;    // elements
  explicit operator bool() const { return buffer != -1; }
  View slice(int64_t from, int64_t n) const { return {buffer, offset + from, n}; }
};

struct Attrs {
  int64_t m = 0, n = 0, k = 0;  // gemm: C[m,n] = A[m,k] B[k,n]; row kernels: m rows of n columns
  bool trans_a = false, trans_b = false, accumulate = false;
  bool tf32 = false;  // gemm, attention: products of f32 operands take them rounded to 10 bits of mantissa
  int64_t batch = 0, heads = 0, kv_heads = 0, tq = 0, tk = 0, d = 0;  // attention
  int64_t ld_q = 0, ld_kv = 0, ld_o = 0;                              // elements between rows
  bool causal = false;
  bool tanh = false;   // gelu: its approximation by a tanh
  bool fp8 = false;    // gemm: operands are rounded to 8 bits on the way in
  float scale = 0;     // attention: 1/sqrt(d); loss: weight of this micro-batch in the step's mean
  float eps = 0;       // norms
  int64_t period = 0;  // residual_norm, period_sum: rows after which the residual repeats (0: never)
  int64_t row0 = 0;    // of these rows within a period; images: of these rows within batch * tokens
  bool first = false;  // residual_norm_backward, attention_merge: written, not added to
  int64_t channels = 0, height = 0, width = 0, patch = 0;  // images
  int64_t token0 = 0, tokens = 0;  // images: which tokens of each sample the rows stand for (0: all)
  int64_t extent[3] = {}, from[3] = {},
          to[3] = {};                  // copy: blocks of n elements, their strides in x and in y
  int32_t group = -1;                  // collectives: index into Plan::groups
  std::vector<int64_t> send, receive;  // elements for or of each rank of the group; {}: equal parts
};

struct Op {
  OpKind kind;
  Lane lane = Lane::compute;
  Attrs a;
  std::vector<View> reads, writes;
  std::string path;              // block07/attn/qkv/forward: NVTX range, trace name and join key
  bool workspace = false;        // the last of `writes` is scratch that the backend asked for
  int32_t part = -1;             // index into Plan::parts (-1: of the step, not of the net)
  bool weight_gradient = false;  // gemm: of a parameter; a split backward pass puts it off
};

/// The op's sizes for people: "NT 1024x384x1536", "b8 h6/6 q1024 k1024 d64".
std::string shape_text(const Op& op);

}  // namespace isobar
