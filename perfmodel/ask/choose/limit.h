// The limit of a training step, and the option that lifts it.
//
//   const Limit l = limit_of(model, spec, found.lifted);
//   l.text()    // "limited by the batch: --global-batch 256 trains 14 % more samples/s"
//
// Each limit is lifted by itself: loader threads as many as it takes, or twice the network, memory, batch.
#pragma once
#include <string>

#include "perfmodel/ask/search.h"

namespace isobar::perf {

struct Limit {
  std::string what;  // data | network inside hosts | network between hosts | memory | batch; "": none of them
  double gain = 0;   // share of samples a second that lifting it adds
  std::string lift;  // the option that lifts it; "": none does
  std::string text() const;
};

/// The largest limit above 5 % of the run's layout.
Limit limit_of(LayoutModel& model, const RunSpec& spec, const Lifted& lifted);

}  // namespace isobar::perf
