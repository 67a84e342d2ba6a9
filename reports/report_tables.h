// The tables of a report; on the terminal, in the page and as CSV they are the same.
#pragma once
#include <optional>

#include "reports/chart_data.h"
#include "reports/compare.h"
#include "reports/data.h"
#include "reports/tables.h"

namespace isobar {

Table runs_table(const ReportData& d);   // measured beside predicted, fastest first
Table score_table(const ReportData& d);  // what the predictions are worth, fitted and held-out runs apart
Table terms_table(const ReportData& d);  // predicted step by term, one line per run and term
/// Of the fastest run: time, memory, clock and power by rank. None: one rank and nothing metered, or old
/// results
std::optional<Table> ranks_table(const ReportData& d);
Table memory_table(const ReportData& d);    // per rank: planned arena, predicted and measured resident memory
Table training_table(const ReportData& d);  // validation against persistence
Table failed_table(const ReportData& d);    // what failed and why
Table provenance_table(const ReportData& d);

Table pareto_table(const ReportData& d, const ChartData& s);  // the best compromises of time, memory and cost
Table comparison_table(const Comparison& c, size_t number);   // one set of results against another

/// Ops of one run, longest first; `grouped`: block*/... are one line. Predicted beside measured where known.
Table ops_table(const ReportData& d, const ReportRun& r, bool grouped);

/// What one rank can reach at most, by the machine file.
struct Roof {
  double flops = 0, bytes = 0;  // per second; 0: not known
  /// Seconds that so much work takes at least.
  double seconds(double work_flops, double work_bytes) const;
};
Roof roof_of(const ReportRun& r, const Machine& m);

/// Ops of a run summed over all that share a line.
struct OpLine {
  std::string path, kind, lane;
  double count = 0;                     // executions per step
  double seconds = 0, predicted_s = 0;  // per step; predicted NaN where nothing is
  double flops = 0, bytes = 0;          // per step
  double efficiency = 0;                // least time by the roofline over measured; NaN: not known
};
std::vector<OpLine> op_lines(const ReportData& d, const ReportRun& r, bool grouped);

}  // namespace isobar
