// Checkpoints of measured runs as observations for the fit: one for each run that wrote any.
#pragma once
#include <string>
#include <vector>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/least_squares.h"

namespace isobar::perf {

/// Appends each observation's run to `sources`.
std::vector<Observation> checkpoint_observations(const std::vector<MeasuredRun>& runs, const Storage& storage,
                                                 std::vector<std::string>& sources);

/// Log sigma of their residuals; they are the last `count` observations of the solution.
double checkpoint_spread(const Solution& s, size_t count);

}  // namespace isobar::perf
