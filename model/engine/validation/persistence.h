// Persistence baseline: the forecast that nothing changes. Latitude-weighted RMSE between a batch's input and
// target, with the formula of the net's own metric (base/latitude.h); for a regional net over its points,
// unweighted unless train.latitude_weights is set, as in its metric.
#pragma once
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::engine {

/// Adds the sum over the batch of each target channel's RMSE. input and target are [batch,channels,H,W];
/// `persistent` maps target channels to input channels; `mask` [batch,channels,H,W] excludes points where it
/// is 0 (nullptr: none). `spec`: of an image net; `latitudes`: of its rows, {} if unknown
void add_persistence_rmse(const RunSpec& spec, const std::vector<double>& latitudes, int64_t batch,
                          const float* input, const float* target, const float* mask,
                          const std::vector<int64_t>& persistent, std::vector<double>& sums);

}  // namespace isobar::engine
