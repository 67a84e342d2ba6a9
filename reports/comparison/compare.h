// Comparison of sets of results: what became faster or slower, by how much, and whether the change exceeds
// noise. Runs are matched by their specification without seed and file paths.
//
//   for (const Comparison& c : compare(data))          // each further set against the first
//     for (const Change& x : c.changes) ... x.ratio, x.lower, x.upper, x.verdict
//
// Step times are compared on a log scale. With repetitions, noise is the variance between repetitions of one
// specification, pooled over all specifications (Student's t). Without, noise comes from batches of steps
// within each run (Welch's t), which misses drift of the machine between runs; the report then says so.
// Verdicts correct for the number of specifications tested (Benjamini and Hochberg 1995, 5 %).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/base/measurement.h"
#include "reports/data.h"

namespace isobar {

struct Measured {  // the part of a run that a comparison reads
  std::string id, label, layout;
  double log_s = 0;  // log of its step time
  Noise own;         // of log_s, from steps within the run; df 0: not known
};
using Repetitions = std::vector<Measured>;                                       // of one specification
using BeforeAfter = std::map<std::string, std::pair<Repetitions, Repetitions>>;  // by specification

/// Label without the set's name and the repetition's number.
Measured measured(const ReportRun& r);

struct Change {
  std::string label, layout;
  std::string before_id, after_id;         // the first run of each
  size_t runs_before = 0, runs_after = 0;  // repetitions
  double before_s = 0, after_s = 0;        // geometric mean of their step times
  double ratio = 1, lower = 1, upper = 1;  // after / before with 95 % interval; NaN: noise is not known
  double p = 1, q = 1;                     // two-sided; adjusted
  std::string verdict;                     // faster | slower | no difference seen | not tested
};

struct Comparison {
  std::string before, after;               // sets
  std::vector<Change> changes;             // largest first
  size_t only_before = 0, only_after = 0;  // specifications without a partner
  Statistic statistic = kStatistic;        // the statistic of step times that is compared
  bool repetitions = false;                // noise between runs is known
  double ratio = 1, lower = 1, upper = 1;  // geometric mean over specifications, 95 % interval
  size_t count(const std::string& verdict) const;
};

/// Compares the specifications that both sets have; the caller names the sets.
Comparison compare(const BeforeAfter& groups);
std::vector<Comparison> compare(const ReportData& d);

}  // namespace isobar
