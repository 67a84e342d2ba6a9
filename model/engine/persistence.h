// The forecast to beat: nothing changes. Latitude-weighted RMSE between a batch's input and its target, with
// the formula of the net's own metric (base/latitude.h); of a net that predicts for a region alone, over its
// points, which count alike unless train.latitude_weights says otherwise, as in its metric.
#pragma once
#include <vector>

#include "model/base/spec.h"

namespace isobar {

/// Adds, for each channel of the target, the sum over the batch of the RMSE. input and target are
/// [batch,channels,H,W]; `persistent`: which channel of the input each of the target's is.
/// `mask` [batch,channels,H,W]: only where it is not 0; nullptr: everywhere. `spec`: of a net of images.
/// `latitudes`: of its rows, {}: not known
void add_persistence_rmse(const RunSpec& spec, const std::vector<double>& latitudes, int64_t batch,
                          const float* input, const float* target, const float* mask,
                          const std::vector<int64_t>& persistent, std::vector<double>& sums);

}  // namespace isobar
