// The smallest change of a configuration that does not fit: as few keys as possible, and among those the
// fastest.
//
//   if (!predict(spec, machine, options).fits())
//     if (const auto c = smallest_change(spec, machine, options))
//       c->set       // {"policy.recompute=full", "policy.zero=1"}: for --set
//
// Net, batch, precision and number of ranks stay; recomputation, micro-batch, ZeRO, offload, sequence
// parallelism, schedule, tp, cp and pp may change, each counts as one, and dp follows. If no three of them
// suffice, twice, four times … as many ranks are tried, with two of them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/ask/predict.h"

namespace isobar::perf {

struct SmallestChange {
  RunSpec spec;
  std::vector<std::string> set;  // key=value
  Prediction prediction;
};
std::optional<SmallestChange> smallest_change(const RunSpec& spec, const Machine& machine,
                                              const PredictOptions& options);

}  // namespace isobar::perf
