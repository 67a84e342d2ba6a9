// One op = one library call or kernel launch of one rank. The vocabulary that all four readers of a plan
// share.
//
// An op names the operands it reads and writes as views into buffers; absent optional operands are View{}.
// Which operand stands where, and all else that is known of a kind, is its row in op_table.cpp. `Attrs` holds
// the sizes; what a kind does not use is 0.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/activation.h"
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
  // A row each in op_table.cpp, in the same order: operands, work, price, back ends
  fetch,  // the batch
  patch_gather,
  gemm,
  attention,
  attention_backward,
  attention_merge,  // of a ring: o and lse (f32) are merged in by lse
  residual_norm,    // LayerNorm of a stream that the result before is added to
  residual_norm_backward,
  residual_add,
  norm_residual,  // LayerNorm of a result that is then added to a stream
  norm_residual_backward,
  gather,       // rows of tables by constant indices, added up
  segment_sum,  // of rows that lie together, or that a constant order names
  activation,
  activation_backward,
  column_sum,
  period_sum,  // of positions that repeat
  roll,        // of a roll-out: what a step has predicted, as patches that the next one reads
  unroll,      // the newest channels of patches, as a prediction lies
  loss_sums,
  loss,
  loss_backward,
  zero,
  cast,  // accumulate: added to
  copy,  // strided, same type
  squared_sum,
  loss_scale,
  adam,
  sgd,
  average,  // of a parameter over steps
  swap,     // of two buffers' content
  rms_norm,
  rms_norm_backward,
  swiglu,  // u: gate and up
  swiglu_backward,
  rotary,  // queries and keys, in place
  rotary_backward,
  dropout,  // in place; acts in training steps alone
  dropout_backward,
  softmax,
  softmax_backward,
  embedding,
  embedding_backward,
  cross_entropy_max,   // largest logit of each row
  cross_entropy_sums,  // of each row
  cross_entropy,       // the gradient, which may go over the logits, and what is scored
  all_reduce,          // in place, sum
  broadcast,           // from the group's first rank
  all_gather,          // parts in group order
  reduce_scatter,      // parts in group order, sum
  all_to_all,          // parts in group order
  exchange,            // to the group's next rank, from its previous one
  send,                // group: sender, receiver
  recv,                // group: sender, receiver
};
const char* name_of(OpKind k);
const char* name_of(Lane l);
bool is_collective(OpKind k);  // runs over the network, sends and receives too
bool kernel_less(OpKind k);    // no backend has a kernel for it

struct View {           // a run of elements of one buffer
  int32_t buffer = -1;  // -1: absent
  int64_t offset = 0;   // elements
  int64_t count = 0;    // elements
  int32_t back = 0;     // of a saved buffer: in the slot so many before the invocation's own
  explicit operator bool() const { return buffer != -1; }
  View slice(int64_t from, int64_t n) const { return {buffer, offset + from, n, back}; }
  /// The same of the step before in a roll-out, whose slots lie side by side; negative: of a later one.
  View of_before(int32_t steps) const { return {buffer, offset, count, back + steps}; }
};

struct Attrs {
  int64_t m = 0, n = 0, k = 0;  // gemm: C[m,n] = A[m,k] B[k,n]; row kernels: m rows of n columns
  bool trans_a = false, trans_b = false, accumulate = false;
  bool tf32 = false;  // gemm, attention: products of f32 operands take them rounded to 10 bits of mantissa
  // attention; gather, segment_sum: batch samples share their indices
  int64_t batch = 0, heads = 0, kv_heads = 0, tq = 0, tk = 0, d = 0;
  int64_t ld_q = 0, ld_kv = 0, ld_o = 0;  // elements between rows
  bool causal = false;
  Activation activation = Activation::gelu;  // activation, and its backward
  bool fp8 = false;                          // gemm: operands are rounded to 8 bits on the way in
  float scale = 0;      // attention: 1/sqrt(d); loss: weight of this micro-batch in the step's mean; gemm: of
                        // the product (0: 1)
  float eps = 0;        // norms
  int64_t period = 0;   // residual_norm, period_sum: rows after which the residual repeats (0: never);
                        // dropout: rows of a micro-batch, of all ranks together
  int64_t row0 = 0;     // of these rows within a period; images: of these rows within batch * tokens
  float rate = 0;       // dropout: share of the elements that become zero; average: of what is new
  int64_t each = 1;     // dropout: neighbours to a number, n counts those; attention: times of the last key
  int64_t stream = 0;   // dropout: of random numbers, with train.seed and the step
  int64_t column0 = 0;  // cross_entropy: the class that the first column stands for
  bool first = false;   // residual_norm_backward, attention_merge: written, not added to
  int64_t channels = 0, height = 0, width = 0, patch = 0;  // images
  int64_t token0 = 0, tokens = 0;  // images: which tokens of each sample the rows stand for (0: all)
  int64_t history = 0;             // roll, unroll: times among the channels, oldest first; n predicted ones
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
