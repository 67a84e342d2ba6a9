// Pipeline parallelism: the parts of the net in a rank's chunks, and the sends and receives between them.
//
//   Stages stages(b, spec, rank);
//   for (const Stage& stage : stages.list()) …              // this rank's chunks, in forward order
//   StageLinks links(b, stages, streams);                        // streams that enter and leave them
//   links.receive(stage, Pass::forward, stream, x);
//
// The net is cut into pp * vpp virtual stages; chunk c of pipeline rank s is virtual stage c * pp + s
// (Narayanan 2021). A stream is sent over every cut that it crosses: stages between relay it. Every ordered
// pair of neighbours has a communicator for activations and one for gradients, so each carries one direction
// only.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/nets/layers.h"
#include "model/plan/builder.h"
#include "model/plan/layout.h"

namespace isobar::nets {

struct Stage {
  int chunk = 0;
  int32_t first = 0, end = 0;              // parts [first, end) of the net
  bool is_first = false, is_last = false;  // holds the net's first or last part
  // The parts between the net's ends, which can be recomputed
  int32_t inner_first() const { return first + (is_first ? 1 : 0); }
  int32_t inner_end() const { return end - (is_last ? 1 : 0); }
  bool enters(const plan::Stream& s) const { return s.from < first && first <= s.to; }
  bool leaves(const plan::Stream& s) const { return s.from < end && end <= s.to; }
};

/// [first, end) of the parts recomputed together with part i of a stage; empty: it is not recomputed.
/// Megatron's --recompute-method and --recompute-num-layers, by stage chunk.
std::pair<int32_t, int32_t> recomputed_with(const PolicySpec& policy, const Stage& stage, int32_t i);

class Stages {
 public:
  Stages(const RunSpec& spec, int rank);
  const std::vector<Stage>& list() const { return list_; }
  int index() const { return index_; }                      // of this pipeline rank
  const std::vector<int>& ranks() const { return ranks_; }  // of this pipeline, by stage

 private:
  std::vector<int> ranks_;
  int index_;
  std::vector<Stage> list_;
};

/// The streams that cross the cuts of this rank's chunks.
class StageLinks {
 public:
  /// Streams that leave a chunk have their own buffers, so that a transfer blocks no other memory. `same`: by
  /// stream, the stream whose gradient shares its buffer.
  StageLinks(plan::Builder& b, const Stages& stages, const std::vector<plan::Stream>& streams,
             const std::vector<int>& same);

  /// The buffer of a stream that leaves this chunk.
  plan::View leaving(const Stage& s, int stream) const { return leaving_[s.chunk][stream]; }
  /// The buffer of its gradient, on either side; absent if it stays within the chunk.
  plan::View gradient(const Stage& s, int stream) const { return gradient_[s.chunk][same_[stream]]; }

  void receive_forward(const Stage& s, int stream, const plan::View& x);
  void send_forward(const Stage& s, int stream, const Flow& flow);  // x, or x + y
  void receive_backward(const Stage& s, int stream, const plan::View& dx);
  void send_backward(const Stage& s, int stream, const plan::View& dx);
  /// Sends from the last stage to the first, and the gradient back.
  void last_to_first(const Stage& s, plan::Pass pass, bool sends, const plan::Stream& stream,
                     const plan::View& v);

 private:
  int pair(const std::string& name, int from, int to);
  std::string path(const Stage& s, const char* what, int stream) const;
  plan::Builder& b_;
  const Stages& stages_;
  const std::vector<plan::Stream>& streams_;
  const std::vector<int> same_;
  std::vector<std::vector<plan::View>> leaving_, gradient_;  // by chunk and stream
};

}  // namespace isobar::nets
