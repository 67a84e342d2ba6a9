// The tables of a report, the same on the terminal, in the page and as CSV.
#pragma once
#include <optional>

#include "reports/comparison/compare.h"
#include "reports/data.h"
#include "reports/figures/chart_data.h"
#include "reports/tables/tables.h"

namespace isobar::report {

Table runs_table(const ReportData& d);   // measured beside predicted, fastest first
Table score_table(const ReportData& d);  // errors of predictions, fitted and held-out runs apart
Table terms_table(const ReportData& d);  // predicted step by term, one line per run and term
/// Time, memory, clock and power by rank of the fastest run. Empty with one rank and no meters, or for old
/// results
std::optional<Table> ranks_table(const ReportData& d);
Table memory_table(const ReportData& d);    // per rank: planned arena, predicted and measured resident memory
Table training_table(const ReportData& d);  // validation against persistence
Table failed_table(const ReportData& d);    // what failed and why
Table provenance_table(const ReportData& d);

Table pareto_table(const ReportData& d, const ChartData& s);  // Pareto-optimal runs in time, memory and cost
Table comparison_table(const Comparison& c, size_t which);    // one set of results against another

/// Ops of one run, longest first; `grouped` merges block*/... into one line. Predicted beside measured where
/// known.
Table ops_table(const ReportData& d, const ReportRun& r, bool grouped);

/// Ops of a GPU's run by kind, what loses most first: time beside the least by FLOPs and by bytes, and the
/// share of the step that is lost. No rows without a machine file of accelerators.
Table kinds_table(const ReportData& d, const ReportRun& r);

/// Peak rates of one rank, by the machine file.
struct Roof {
  double flops = 0, bytes = 0;  // per second; 0: not known
  /// Least seconds that this work takes.
  double seconds(double work_flops, double work_bytes) const;
};
Roof roof_of(const ReportRun& r, const perf::Machine& m);
/// A rank's model FLOP/s as measured, and their share of its peak. NaN: not known.
struct Reached {
  double model_flops = 0, mfu = 0;
};
Reached reached_by(const ReportRun& r, const ReportData& d);

/// Ops of a run summed by line of the table.
struct OpLine {
  std::string path, kind, lane;
  double count = 0;                     // executions per step
  double seconds = 0, predicted_s = 0;  // per step; predicted NaN: no prediction
  double flops = 0, bytes = 0;          // per step
  double efficiency = 0;                // roofline time over measured time; NaN: not known
};
std::vector<OpLine> op_lines(const ReportData& d, const ReportRun& r, bool grouped);

}  // namespace isobar::report
