// The limit of a training step, and the option that lifts it.
//
//   const Limit l = limit_of(model, spec, again);
//   l.text()    // "limited by the batch: --global-batch 256 trains 14 % more samples/s"
//
// Each limit is lifted by itself: loader threads as many as it takes, or twice the network, memory, batch.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "perfmodel/layouts/layout_model.h"

namespace isobar {

constexpr double kNamedGain = 0.05;  // below, a limit is not worth a word

struct Limit {
  std::string what;  // data | network inside hosts | network between hosts | memory | batch; "": none of them
  double gain = 0;   // share of samples a second that lifting it adds
  std::string lift;  // the option that lifts it; "": none does
  std::string text() const;
};

/// Seconds a sample of a changed run, on a changed machine: of its best layout, or of its own; none: not
/// legal.
using Again = std::function<std::optional<double>(const RunSpec&, const Machine&)>;

/// The largest limit above 5 % of the run's layout.
Limit limit_of(LayoutModel& model, const RunSpec& spec, const Again& again);

}  // namespace isobar
