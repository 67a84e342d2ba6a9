// One op = one library call or kernel launch of one rank: the vocabulary of a plan's four readers (plan.h).
//
// An op names the operands it reads and writes as views into buffers; absent optional operands are View{}.
// The order of operands and all else known of a kind is its row in op_kind.h; its attributes: attrs.h.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/dtype.h"
#include "model/plan/ops/op_kind.h"

namespace isobar::plan {

// In-order queues. Sends and receives have their own lanes in both directions, so a transfer that waits for
// its peer blocks no other, whatever the schedule.
enum class Lane : uint8_t {
  compute,
  tp,
  cp,
  ep,
  dp,
  recv_forward,   // activations from the previous stage
  send_forward,   // activations to the next stage
  recv_backward,  // gradients from the next stage
  send_backward,  // gradients to the previous stage
  h2d,            // offload: from host memory
  d2h             // offload: to host memory
};
constexpr int kLanes = 11;

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

struct Op {
  OpKind kind;
  Lane lane = Lane::compute;
  Attrs attrs;
  std::vector<View> reads, writes;
  std::string path;              // block07/attn/qkv/forward: NVTX range, trace name and join key
  bool workspace = false;        // the last write is scratch that the backend asked for
  int32_t part = -1;             // index into Plan::parts (-1: the step's, not the net's)
  bool weight_gradient = false;  // gemm of a parameter's gradient, which a split backward pass postpones

  /// Throws std::bad_variant_access if its kind has other attributes.
  template <class A>
  const A& as() const {
    return std::get<A>(attrs);
  }
  template <class A>
  A& as() {
    return std::get<A>(attrs);
  }
};

/// The op's sizes for people: "NT 1024x384x1536", "b8 h6/6 q1024 k1024 d64".
std::string shape_text(const Op& op);

}  // namespace isobar::plan
