// Op times of measured runs as observations for the fit.
//
// One observation per run and kind of op (seconds in a step against its counts), and one of the step's time
// outside ops, which separates the cost of a step from that of many small ops. Only runs with undisturbed op
// times are used (no loader threads, no collectives under compute); reading by the compute thread is part of
// the fetch op.
#pragma once
#include <vector>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/least_squares.h"

namespace isobar::perf {

/// Appends each observation's run to `sources`.
std::vector<Observation> op_observations(const std::vector<MeasuredRun>& runs, const Machine& machine,
                                         std::vector<std::string>& sources);

}  // namespace isobar::perf
