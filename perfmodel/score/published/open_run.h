// Rows that leave parts of their net or layout open (micro-batch, layout, global batch, layers given only by
// the net's name): all runs that they may be. choices.h says how likely each is.
//
//   OpenRun o = open_run(row, "mine", false, nullptr);
//   o.missing; o.candidates      // none missing: the row is said
//
// Only rows without a net, GPUs or a time are refused.
#pragma once
#include <string>

#include "perfmodel/score/published/published_row.h"

namespace isobar::perf {

/// Every legal way to fill the row; none: it cannot be filled. Throws Refused for errors common to all.
OpenRun open_run(const CsvRow& row, const std::string& table, const Surroundings* own);

}  // namespace isobar::perf
