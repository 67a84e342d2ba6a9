// A row of a table of runs (published_run.h has the columns) as a run, or the reason why it is refused.
//
//   try { PublishedRun r = run_from(row, "mine", false); } catch (const Refused& why) { why.what(); }
#pragma once
#include <stdexcept>
#include <string>

#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
  /// `numbers`: the row's own, where rows are refused for one reason with different ones.
  Refused(const std::string& why, const std::string& numbers)
      : std::runtime_error(why + " (" + numbers + ")"), reason(why) {}
  std::string reason;  // "": all of what()
};

/// The row's accelerator is none of configs/machines.
struct UnknownChip : Refused {
  explicit UnknownChip(const std::string& gpu_type) : Refused(unknown_chip(gpu_type)), name(gpu_type) {}
  std::string name;
};

PublishedRun run_from(const CsvRow& row, const std::string& table, const Surroundings* own = nullptr);

// Rows that leave parts of their net or layout open (micro-batch, layout, global batch, layers given only by
// the net's name): all runs that they may be. choices.h says how likely each is.
//
// Only rows without a net, GPUs or a time are refused.

/// Every legal way to fill the row; none: it cannot be filled. Throws Refused for errors common to all.
OpenRun open_run(const CsvRow& row, const std::string& table, const Surroundings* own);

// Checks of a table's row: cells that are no numbers, and numbers of one row that contradict each other.
// Each throws Refused with the column and what stands in it.

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
