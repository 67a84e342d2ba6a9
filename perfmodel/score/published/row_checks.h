// Checks of a table's row: cells that are no numbers, and numbers of one row that contradict each other.
// Each throws Refused with the column and what stands in it.
#pragma once
#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

/// Text in a column of numbers, and parts of what is counted in whole ones.
void refuse_foreign_cells(const CsvRow& row);
/// Nets that are none: heads that do not divide, other parameters than params_b.
void refuse_impossible_net(const CsvRow& row, const PublishedRun& r);
/// Layouts that no engine runs: heads that tensor parallelism does not divide, parts of micro-batches.
void refuse_impossible_layout(const CsvRow& row, const PublishedRun& r);
/// Types that the chip has no products of.
void refuse_missing_precision(const PublishedRun& r);
/// `r.step_s` must agree with all times, rates and FLOP rates of the row, and with the chip.
void refuse_contradictions(const CsvRow& row, const PublishedRun& r);

}  // namespace isobar::perf
