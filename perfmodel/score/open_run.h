// Rows with open inputs (micro-batch, layout, global batch, layers given only by the net's name): all their
// candidate runs, people's choices among them, and the prediction over all.
//
//   for (const OpenRun& o : table.open) {
//     const std::vector<double> w = chances(o, samples_of_others);
//     Estimated e = over_candidates(o, w, [&](const PublishedRun& r) { return fit.predict(sample_of(r)); });
//   }
//
// Only rows without a net, GPUs or a time are refused.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "perfmodel/score/campaign_fit.h"
#include "perfmodel/score/published_row.h"

namespace isobar {

/// Every legal way to fill the row; none: it cannot be filled. Throws Refused for errors common to all.
OpenRun open_run(const CsvRow& row, const std::string& table, bool experts, const Surroundings* own);

/// Chances of the candidates: similarity to other people's complete runs (each campaign has equal weight),
/// given net size and GPUs, and whether memory suffices.
std::vector<double> chances(const OpenRun& open, const Samples& others);

/// Median and 80 % interval of the mixture, relative to the measurement, since with a throughput the step's
/// time depends on the batch. `value` is in units of the measured step.
Estimated over_candidates(const OpenRun& open, const std::vector<double>& chances,
                          const std::function<Estimated(const PublishedRun&)>& predict);

}  // namespace isobar
