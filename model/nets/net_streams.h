// The streams of a whole net, as a pipeline sends them: from which part to which, how many bytes, and whose
// gradients lie in the same memory. Asked of the net itself, of which no op is emitted.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec.h"

namespace isobar {

struct NetStream {
  int32_t from = 0, to = 0;  // parts of the net
  int32_t same = 0;          // index of the stream whose gradient lies in the same memory; its own, maybe
  double bytes = 0;          // of a micro-batch, as a rank holds it
  bool jumps() const { return from + 1 < to; }
};

/// By index into Plan::streams. The pipeline of `spec.layout` does not matter, tp, cp and the micro-batch do.
std::vector<NetStream> net_streams(RunSpec spec);

}  // namespace isobar
