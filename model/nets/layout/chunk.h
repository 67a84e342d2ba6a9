// The routines of one pipeline chunk, from its parts: forward, backward and, if backward is split, weight
// gradients.
//
//   ChunkEmitter chunks(emission, net, params, stages);
//   const int routine = chunks.forward(stage, "forward");
//
// Parts emit themselves (net.h). This class emits what connects them: streams that enter and leave, gathers
// of the next part's parameters, recomputation, and when a part's gradients are final.
#pragma once
#include <string>
#include <vector>

#include "model/nets/layout/stages.h"
#include "model/nets/net.h"
#include "model/plan/parameters.h"

namespace isobar::nets {

struct PartPorts {  // a part's streams, by index into Plan::streams
  std::vector<int> takes, gives;
};
std::vector<PartPorts> ports_of(const Net& net);
/// By stream: the first stream whose gradient shares its buffer.
std::vector<int> shared_gradients(const Net& net);

class ChunkEmitter {
 public:
  ChunkEmitter(Emission& e, Net& net, plan::Parameters& params, const Stages& stages);

  // Each returns the routine's index. `accumulate`: adds to the gradients; `reduce`: the step's last use, so
  // gradients are reduced.
  int forward(const Stage& stage, const std::string& name);  // roll-out: the first step's first
  int backward(const Stage& stage, const std::string& name, bool accumulate, bool reduce);
  /// For the backward emitted last; backward passes of all micro-batches postpone the same products.
  int backward_weight(const Stage& stage, const std::string& name, bool accumulate, bool reduce);
  /// In the open routine: sends Plan::replayed, which the last forward filled, from the last stage to the
  /// first.
  void send_replayed_to_first(const Stages& stages);

 private:
  struct Final {  // a part, and the number of postponed weight gradients after which its gradients are final
    size_t after;
    int part;
  };
  void read_before(const Stage& stage);
  void send_prediction(const Stage& stage);
  void keep_replayed();
  void receive_next_gradient(const Stage& stage);
  void send_prediction_gradient(const Stage& stage);
  void fetch(const Stage& stage);
  plan::View destination(const Stage& stage, int stream);
  std::vector<Flow> inputs(int part) const;
  void run_forward(const Stage& stage, int part, const std::vector<Flow>& in, Forward how);
  Keep keep_of(const Stage& stage, int part) const;
  void recompute(const Stage& stage, int32_t from, int32_t to);
  void find_gradients(const Stage& stage);
  void arrive(const Stage& stage, int stream, bool accumulate);
  void run_backward(int part);
  plan::View last_gradient(const Stage& stage, bool weight) const;

  Emission& e_;
  plan::Builder& b_;
  Net& net_;
  plan::Parameters& params_;
  const std::vector<plan::Stream>& streams_;
  const std::vector<PartPorts> ports_;  // by part
  const std::vector<int> same_;         // by stream: the stream whose gradient shares its buffer
  StageLinks links_;
  RollOut* const roll_;                       // nullptr: no roll-out
  const std::vector<plan::Stream> feedback_;  // one, or none
  plan::View next_gradient_;                  // gradient of feedback_
  std::vector<Flow> flows_;                   // by stream, of the forward routine emitted last
  std::vector<Gradient> gradients_;           // by stream, of the open backward routine
  std::vector<Final> finals_;                 // of the backward routine emitted last
};

}  // namespace isobar::nets
