// Op times of measured runs as observations for the fit.
//
// One observation per run and kind of op: its seconds in a step against its counts; and one of what the ops
// leave of a step, which tells the cost of a step from the cost of many small ops. Only runs in which
// nothing else has a hand in op times are used (no loader threads, no collectives under compute); reading by
// the compute thread is part of the fetch op.
#pragma once
#include <vector>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/least_squares.h"

namespace isobar {

/// Appends to `sources` the run that each observation is from.
std::vector<Observation> op_observations(const std::vector<MeasuredRun>& runs,
                                         const std::vector<StepTerms>& terms, const Machine& machine,
                                         std::vector<std::string>& sources);

}  // namespace isobar
