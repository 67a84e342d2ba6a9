// A pipeline of unequal stages by events: when each stage computes each micro-batch, and when each stream
// crosses each cut. A recurrence over the engine's schedule (plan/schedule.h), without a plan: it is part of
// the closed form, since a search has no ops to replay. Equal stages use formulas (layout_pipeline.cpp).
//
//   PipelineEvents pipeline(kind, p, v, virtual_stages);
//   double s = pipeline.seconds(m);          // from the first micro-batch's forward to the last one's
//   backward
//
// The rules are those of plans (nets/layout/chunk.cpp, nets/layout/stages.h): transfers of a direction are
// sequential, in the order of streams; a sent stream has one buffer, for which the next micro-batch waits; a
// stream's gradient has one on either side; a received stream waits for a slot.
#pragma once
#include <cstdint>
#include <vector>

#include "model/plan/schedule.h"

namespace isobar::perf {

/// A chunk's work on a micro-batch, in seconds.
struct VirtualStage {
  struct Port {           // a stream that crosses one of the chunk's cuts, in the order of Plan::streams
    int32_t stream = 0;   // index among all streams, …
    int32_t same = 0;     // … and of the one whose gradient shares its memory
    double transfer = 0;  // over that cut
    bool passes = false;  // relayed: enters and leaves
  };
  struct Segment {  // adjacent parts without streams entering or leaving between
    struct Work {
      double seconds = 0;   // of the device
      double launches = 0;  // of the host, to launch all of it …
      double lag = 0;       // … and its largest lag behind the device, if both begin together
      void add(double seconds, double launches);
    };
    Work forward, backward;  // backward: without weight gradients, if split
    Work weight;             // postponed weight gradients
    // Ports of its first part's inputs, and of its last part's results
    std::vector<int32_t> takes, gives;
    bool hands_on = false;  // its last part is the chunk's last
  };
  std::vector<Port> enters, leaves;
  std::vector<Segment> segments;
  double boundary = 0;  // of summing a sent stream, or copying a received gradient
  // Waits for ZeRO's units: in each pass; of them, done ahead by an idle stage; and after sending the
  // gradient.
  double wait_forward = 0, wait_backward = 0, ahead_forward = 0, ahead_backward = 0, behind = 0;
};

class PipelineEvents {
 public:
  /// `stages`: p * v of them, in forward order.
  PipelineEvents(PipelineSchedule schedule, int p, int v, std::vector<VirtualStage> stages);

  /// Seconds for m micro-batches. In a full pipeline every p of them take equally long, so the rest are
  /// extrapolated.
  double seconds(int64_t m) const;
  /// With all micro-batches played.
  double played(int m) const;

 private:
  const PipelineSchedule schedule_;
  const int p_, v_;
  const std::vector<VirtualStage> stages_;
  int32_t streams_ = 0;
};

}  // namespace isobar::perf
