// One op = one library call or kernel launch of one rank: the vocabulary of a plan's four readers (plan.h).
//
// An op names the operands it reads and writes as views into buffers; absent optional operands are View{}.
// The order of operands and all else known of a kind is its row in op_kind.h. `Attrs` holds the sizes;
// fields that a kind does not use are 0.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/activation.h"
#include "model/base/dtype.h"
#include "model/plan/op_kind.h"

namespace isobar {

// In-order queues. Sends and receives have their own lanes in both directions, so a transfer that waits for
// its peer blocks no other, whatever the schedule.
enum class Lane : uint8_t {
  compute,
  tp,
  cp,
  dp,
  recv_forward,   // activations from the previous stage
  send_forward,   // activations to the next stage
  recv_backward,  // gradients from the next stage
  send_backward,  // gradients to the previous stage
  h2d,            // offload: from host memory
  d2h             // offload: to host memory
};
constexpr int kLanes = 10;

const char* name_of(OpKind k);
const char* name_of(Lane l);
bool is_collective(OpKind k);  // runs over the network; includes sends and receives
bool kernel_less(OpKind k);    // no backend has a kernel for it

struct View {           // a run of elements of one buffer
  int32_t buffer = -1;  // -1: absent
  int64_t offset = 0;   // elements
  int64_t count = 0;    // elements
  int32_t back = 0;     // saved buffer: slots before the invocation's own
  explicit operator bool() const { return buffer != -1; }
  View slice(int64_t from, int64_t n) const { return {buffer, offset + from, n, back}; }
  /// The same view in the previous step of a roll-out, whose slots are adjacent; negative: in a later one.
  View of_before(int32_t steps) const { return {buffer, offset, count, back + steps}; }
};

struct Attrs {
  int64_t m = 0, n = 0, k = 0;  // gemm: C[m,n] = A[m,k] B[k,n]; row kernels: m rows of n columns
  bool trans_a = false, trans_b = false, accumulate = false;
  bool tf32 = false;  // gemm, attention: f32 operands are rounded to TF32's 10 bits of mantissa
  // attention; gather, segment_sum: batch samples share their indices
  int64_t batch = 0, heads = 0, kv_heads = 0, tq = 0, tk = 0, d = 0;
  int64_t ld_q = 0, ld_kv = 0, ld_o = 0;  // elements between rows
  bool causal = false;
  Activation activation = Activation::gelu;  // activation and its backward
  bool fp8 = false;                          // gemm: operands are rounded to 8 bits when read
  float scale = 0;      // attention: 1/sqrt(d); loss: weight of this micro-batch in the step's mean; gemm:
                        // factor on the product (0: 1)
  float eps = 0;        // norms
  int64_t period = 0;   // residual_norm, period_sum: rows after which the residual repeats (0: never);
                        // dropout: rows of a micro-batch over all ranks, of which k are a sample's
  int64_t row0 = 0;     // first of these rows within a period; images: within batch * tokens
  float rate = 0;       // dropout: share of elements zeroed; average: weight of the new value
  int64_t each = 1;     // dropout: neighbours per random number (n counts those); attention: multiplicity of
                        // the last key
  int64_t stream = 0;   // dropout: random stream, with train.seed and the step
  int64_t column0 = 0;  // cross_entropy: class of the first column, of which the last k are none; embedding:
                        // first word of the table
  bool first = false;   // norms' backward, attention_merge, embedding_backward (positions): writes instead of
                        // adding
  int64_t channels = 0, height = 0, width = 0, patch = 0;  // images
  int64_t token0 = 0, tokens = 0;  // images: tokens of each sample that the rows stand for (0: all); causal
                                   // attention: place of the first query among the keys
  int64_t history = 0;             // roll, unroll: times among the channels, oldest first; n are predicted
  int64_t extent[3] = {}, from[3] = {},
          to[3] = {};                  // copy: blocks of n elements, their strides in x and in y
  int32_t group = -1;                  // collectives: index into Plan::groups
  std::vector<int64_t> send, receive;  // elements to or from each rank of the group; {}: equal parts
};

struct Op {
  OpKind kind;
  Lane lane = Lane::compute;
  Attrs a;
  std::vector<View> reads, writes;
  std::string path;              // block07/attn/qkv/forward: NVTX range, trace name and join key
  bool workspace = false;        // the last write is scratch that the backend asked for
  int32_t part = -1;             // index into Plan::parts (-1: the step's, not the net's)
  bool weight_gradient = false;  // gemm of a parameter's gradient, which a split backward pass postpones
};

/// The op's sizes for people: "NT 1024x384x1536", "b8 h6/6 q1024 k1024 d64".
std::string shape_text(const Op& op);

}  // namespace isobar
