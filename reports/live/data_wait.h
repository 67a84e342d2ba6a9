// Explains why a run's steps wait for data, and what would help.
//
//   why_it_waits(run, predictor)   // "2 loader threads deliver 85 samples/s, 0.15 GB/s each; 3 would keep up
//   …"
#pragma once
#include <string>

#include "model/records/results.h"
#include "perfmodel/machine/machine.h"

namespace isobar::report {

/// Share of a step above which a report mentions it
constexpr double kWaitsForData = 0.02;
bool waits_for_data(const records::RunRecord& r);

/// For a run that waits for data. `predictor` supplies the prices that split reading time; null: no split.
std::string why_it_waits(const records::RunRecord& r, const perf::Machine* predictor);

}  // namespace isobar::report
