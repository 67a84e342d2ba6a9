// Rows that leave inputs open (micro-batch, layout, global batch, layers but for the net's name): all runs
// that they may be of, what people choose among them, and the prediction over all.
//
//   for (const OpenRun& o : table.open) {
//     const std::vector<double> w = chances(o, samples_of_others);
//     Estimated e = over_candidates(o, w, [&](const PublishedRun& r) { return fit.predict(sample_of(r)); });
//   }
//
// Refused is only what has no net, no GPUs or no time.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "perfmodel/score/campaign_fit.h"
#include "perfmodel/score/published_row.h"

namespace isobar {

/// Every legal way to fill the row; none: it cannot be filled. Throws Refused for what is wrong with all of
/// them.
OpenRun open_run(const CsvRow& row, const std::string& table, bool experts, const Surroundings* own);

/// Of each candidate, adding up to 1: how like it the complete runs of other people are (each campaign counts
/// alike), given the size of the net and the GPUs, and whether it fits into memory.
std::vector<double> chances(const OpenRun& open, const Samples& others);

/// Middle and 80 % interval of the mixture, relative to what was measured: of a throughput the step's time
/// depends on the batch. `value` is in units of the measured step.
Estimated over_candidates(const OpenRun& open, const std::vector<double>& chances,
                          const std::function<Estimated(const PublishedRun&)>& predict);

}  // namespace isobar
