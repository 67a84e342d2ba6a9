// Checkpoints of measured runs as observations for the fit: one of each run that wrote any.
#pragma once
#include <string>
#include <vector>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/least_squares.h"

namespace isobar {

/// Appends to `sources` the run that each observation is from.
std::vector<Observation> checkpoint_observations(const std::vector<MeasuredRun>& runs, const Storage& storage,
                                                 std::vector<std::string>& sources);

/// Log sigma of what the solution leaves of them. They are the last `count` observations that it was found
/// for.
double checkpoint_spread(const Solution& s, size_t count);

}  // namespace isobar
