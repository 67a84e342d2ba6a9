// Pipeline parallelism: which blocks a rank's chunks hold, and the sends and receives at their ends.
//
//   for (const Stage& stage : stages.list()) …        // this rank's chunks, in forward order
//   stages.receive_forward(stage, x);                 // x [rows, D] f32 from the stage before
//
// The net is cut into pp * vpp virtual stages; chunk c of pipeline rank s is virtual stage c * pp + s
// (Narayanan 2021). Every ordered pair of neighbours has a communicator for activations and one for
// gradients, so each carries one direction only and is used by one end to send, by the other to receive.
#pragma once
#include <utility>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/builder.h"
#include "model/plan/layout.h"

namespace isobar {

struct Stage {
  int chunk = 0;
  int64_t first = 0, end = 0;              // blocks [first, end) of the net
  bool is_first = false, is_last = false;  // holds the embedding; the head
};

/// [first, end) of the blocks that are recomputed together with block i of a stage; empty: it is not
/// recomputed. Megatron's --recompute-method and --recompute-num-layers, by stage chunk.
std::pair<int64_t, int64_t> recomputed_with(const PolicySpec& policy, const Stage& stage, int64_t i);

class Stages {
 public:
  Stages(Builder& b, const RunSpec& spec, int rank);
  const std::vector<Stage>& list() const { return list_; }
  /// What leaves a chunk lies in buffers of its own, so that a transfer holds up no other memory. `count`:
  /// elements of the residual stream.
  void declare_buffers(int64_t count, DType stream = DType::f32);

  void receive_forward(const Stage& s, const View& x);
  void send_forward(const Stage& s, const View& residual, const View& y);  // their sum
  /// dx of the stream: arrives from the stage behind, is updated in place, leaves to the stage before.
  View stream_gradient(const Stage& s, int64_t count);
  void receive_backward(const Stage& s, const View& dx);
  void send_backward(const Stage& s, const View& dx);

 private:
  int pair(const std::string& name, int from, int to);
  Builder& b_;
  std::vector<int> ranks_;  // of this pipeline, by stage
  int stage_;
  DType stream_ = DType::f32;
  std::vector<Stage> list_;
  std::vector<View> leaving_, gradient_;  // by chunk
};

}  // namespace isobar
