// The streams of a whole net, as a pipeline sends them: their parts, bytes, and shared gradients. The net
// itself is asked, without emitting ops.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::nets {

struct NetStream {
  int32_t from = 0, to = 0;  // parts of the net
  int32_t same = 0;          // index of the stream whose gradient shares its buffer (perhaps itself)
  double bytes = 0;          // of a micro-batch, on one rank
  bool jumps() const { return from + 1 < to; }
};

/// By index into Plan::streams. Ignores the pipeline of `spec.layout`, but not tp, cp and the micro-batch.
std::vector<NetStream> net_streams(RunSpec spec);

}  // namespace isobar::nets
