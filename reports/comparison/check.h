// Compares results with a reference and gives a verdict for each specification (`isobar check`).
//
//   CheckResult c = check(entries_of(data), failed, reference, 0.05);
//   c.regressed()                    // some are slower, or fail that ran before
//
// A specification is slower if compare.h finds it slower and the change exceeds the tolerance, likewise
// faster; as fast if the whole interval lies within the tolerance; else it is undecided.
#pragma once
#include <set>

#include "reports/figures/figures.h"
#include "reports/reference.h"
#include "reports/tables/tables.h"

namespace isobar::report {

struct CheckedSpecification {
  Change change;        // only its label is set if the reference has no such specification
  std::string verdict;  // faster | slower | as fast | cannot tell | failed | not run | new
};

struct CheckResult {
  std::vector<CheckedSpecification> specifications;  // problems first
  Comparison comparison;
  std::string cpu;
  size_t count(const std::string& verdict) const;
  bool regressed() const { return count(kSlower) + count("failed") > 0; }
  bool undecided() const { return !regressed() && count(kCannotTell) > 0; }
};

/// `failed`: experiments of runs that did not finish. Throws ConfigError if the runs come from several
/// processors or the reference has no matching run on theirs.
CheckResult check(const std::vector<ReferenceRun>& runs, const std::map<std::string, std::string>& failed,
                  const Reference& reference, const std::filesystem::path& file, double tolerance);
/// Experiments whose runs all failed, with their labels.
std::map<std::string, std::string> failed_of(const ReportData& d);

Table check_table(const CheckResult& c);
/// Step times of each specification, one column an update, this run last.
Table history_table(const Reference& reference, const std::vector<ReferenceRun>& runs);
/// The same as a figure, for the processor of `runs`, coloured by verdict (figures_history.cpp).
std::vector<Figure> history_figures(const CheckResult& c, const Reference& reference,
                                    const std::vector<ReferenceRun>& runs);

}  // namespace isobar::report
