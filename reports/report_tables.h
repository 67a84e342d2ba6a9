// The tables of a report; on the terminal, in the page and as CSV they are the same.
#pragma once
#include "reports/data.h"
#include "reports/tables.h"

namespace isobar {

Table runs_table(const ReportData& d);      // measured beside predicted, fastest first
Table score_table(const ReportData& d);     // what the predictions are worth, fitted and held-out runs apart
Table terms_table(const ReportData& d);     // predicted step by term, one line per run and term
Table memory_table(const ReportData& d);    // per rank: planned arena, predicted and measured resident memory
Table training_table(const ReportData& d);  // validation against persistence
Table failed_table(const ReportData& d);    // what failed and why
Table provenance_table(const ReportData& d);

/// Ops of one run, longest first; `grouped`: block*/... are one line. Predicted beside measured where known.
Table ops_table(const ReportRun& r, bool grouped);
/// The run whose ops are shown: the best of those that recorded ops; nullptr: none did.
const ReportRun* ops_run(const ReportData& d);

/// Ops of a run summed over all that share a line.
struct OpLine {
  std::string path, kind, lane;
  double count = 0;                     // executions per step
  double seconds = 0, predicted_s = 0;  // per step; predicted NaN where nothing is
  double flops = 0, bytes = 0;          // per step
};
std::vector<OpLine> op_lines(const ReportRun& r, bool grouped);

}  // namespace isobar
