// Whether results are as fast as a reference says: a verdict for each specification.
//
//   CheckResult c = check(entries_of(data), failed, reference, 0.05);
//   c.regressed()                    // some are slower, or fail that ran before
//
// Slower is what a comparison calls so (compare.h: more than noise, with the false discovery rate held over
// all specifications) and what exceeds the tolerance; faster the same. Where no noise is known (one run of
// few steps) the tolerance alone decides, and the verdict says so.
#pragma once
#include <set>

#include "reports/figures.h"
#include "reports/reference.h"
#include "reports/tables.h"

namespace isobar {

struct CheckedSpecification {
  Change change;        // of what has a partner; else its label alone
  std::string verdict;  // as fast | slower | faster | failed | not run | new
  bool noise_known = false;
};

struct CheckResult {
  std::vector<CheckedSpecification> specifications;  // what is wrong first
  Comparison comparison;
  std::string cpu;
  size_t count(const std::string& verdict) const;
  bool regressed() const { return count("slower") + count("failed") > 0; }
};

/// `failed`: experiments of runs that did not finish. Throws ConfigError where the runs are of several
/// processors, or none of them has a partner of its own processor in the reference.
CheckResult check(const std::vector<ReferenceRun>& runs, const std::map<std::string, std::string>& failed,
                  const Reference& reference, const std::filesystem::path& file, double tolerance);
/// Experiments, with their labels, of which every run failed.
std::map<std::string, std::string> failed_of(const ReportData& d);

Table check_table(const CheckResult& c);
/// Step times of each specification by update, this run last.
Table history_table(const Reference& reference, const std::vector<ReferenceRun>& runs);
/// The same as a figure, on the processor of `runs`, each in the colour of its verdict (figures_history.cpp).
std::vector<Figure> history_figures(const CheckResult& c, const Reference& reference,
                                    const std::vector<ReferenceRun>& runs);

}  // namespace isobar
