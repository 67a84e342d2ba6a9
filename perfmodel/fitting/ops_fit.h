// Op times of measured runs as observations for the fit.
//
// One observation per run and kind of op (seconds in a step against its counts), and one of the step's time
// outside ops, which separates the cost of a step from that of many small ops. Only runs with undisturbed op
// times are used (no loader threads, no collectives under compute); reading by the compute thread is part of
// the fetch op.
//
// Checkpoints of measured runs as observations for the fit: one for each run that wrote any.
#pragma once
#include <string>
#include <vector>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/least_squares.h"

namespace isobar::perf {

/// Appends each observation's run to `sources`.
std::vector<Observation> op_observations(const std::vector<MeasuredRun>& runs, const Machine& machine,
                                         std::vector<std::string>& sources);

/// Appends each observation's run to `sources`.
std::vector<Observation> checkpoint_observations(const std::vector<MeasuredRun>& runs, const Storage& storage,
                                                 std::vector<std::string>& sources);

/// Log sigma of their residuals; they are the last `count` observations of the solution.
double checkpoint_spread(const Solution& s, size_t count);

}  // namespace isobar::perf
