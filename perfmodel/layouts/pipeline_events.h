// A pipeline of unequal stages, event by event: when each stage computes each micro-batch, and when each
// stream crosses each cut. A recurrence over the actions of the schedule that the engine runs
// (plan/schedule.h); no plan is built. Where stages are alike closed forms do (layout_pipeline.cpp).
//
//   PipelineEvents pipeline(kind, p, v, virtual_stages);
//   double s = pipeline.seconds(m);          // from the first micro-batch's forward to the last one's
//   backward
//
// The rules are those of plans (nets/chunk.cpp, nets/stages.h): a direction's transfers take turns, in the
// order of streams; what leaves a chunk has one buffer, which the next micro-batch waits for; the gradient of
// a stream has one on either side; what a chunk takes waits for a slot.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/plan/schedule.h"

namespace isobar {

/// What a chunk does with a micro-batch, seconds.
struct VirtualStage {
  struct Port {           // a stream that crosses one of the chunk's cuts, in the order of Plan::streams
    int32_t stream = 0;   // index among all streams, …
    int32_t same = 0;     // … and of the one whose gradient has the same memory
    double transfer = 0;  // over that cut
    bool passes = false;  // enters and leaves
  };
  struct Segment {  // neighbouring parts, between which nothing comes or goes
    struct Work {
      double seconds = 0;   // of the device
      double launches = 0;  // seconds in which the host has launched all of it …
      double lag = 0;  // … and the most that it is behind the device on the way there, if both begin at once
      void add(double seconds, double launches);
    };
    Work forward, backward;  // backward: of a split one, without its weight gradients
    Work weight;             // put off
    // Ports of streams that its first part takes, and that its last part gives
    std::vector<int32_t> takes, gives;
    bool hands_on = false;  // its last part is the chunk's
  };
  std::vector<Port> enters, leaves;
  std::vector<Segment> segments;
  double boundary = 0;  // of adding up what leaves, or copying what comes back
  // Waits for ZeRO's units: in each pass; of them, what an idle stage has done before; and after the gradient
  // has gone on.
  double wait_forward = 0, wait_backward = 0, ahead_forward = 0, ahead_backward = 0, behind = 0;
};

class PipelineEvents {
 public:
  /// `stages`: p * v of them, in forward order.
  PipelineEvents(std::string schedule, int p, int v, std::vector<VirtualStage> stages);

  /// Of m micro-batches. Once a pipeline is full, p of them take as long as the p before: the others are not
  /// played.
  double seconds(int64_t m) const;
  /// All of them played.
  double played(int m) const;

 private:
  const std::string schedule_;
  const int p_, v_;
  const std::vector<VirtualStage> stages_;
  int32_t streams_ = 0;
};

}  // namespace isobar
