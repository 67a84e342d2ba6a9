// Comparison of sets of results: what became faster or slower, by how much, and whether the change exceeds
// noise. Runs are matched by their specification without seed and file paths.
//
//   for (const Comparison& c : compare(data))          // each further set against the first
//     for (const Change& x : c.changes) ... x.ratio, x.lower, x.upper, x.verdict
//
// Noise of log step times, everywhere the same (model/base/measurement.h): a run's own steps, which on a busy
// machine is the scatter of one step; repetitions of one specification, pooled; and the day, which shifts a
// whole set: 0.5 % on a quiet machine (an assumption), on a busy one as much as its steps scatter. Intervals
// are of 95 % for all changes together (Bonferroni), by Student's t with Satterthwaite's degrees of freedom.
//
// The interval alone decides: faster or slower without 1 in it, as fast within the tolerance of 1, else it is
// undecided.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/base/measurement.h"
#include "reports/data.h"

namespace isobar::report {

struct Measured {  // the part of a run that a comparison reads
  std::string id, label, layout;
  double log_s = 0;  // log of its step time
  Noise own;         // of log_s, from its own steps; 0: not known
};
using Repetitions = std::vector<Measured>;                                       // of one specification
using BeforeAfter = std::map<std::string, std::pair<Repetitions, Repetitions>>;  // by specification

/// Label without the set's name and the repetition's number.
Measured measured(const ReportRun& r);

inline constexpr const char *kFaster = "faster", *kSlower = "slower", *kAsFast = "as fast",
                            *kCannotTell = "cannot tell";
inline constexpr double kTolerance = 0.05;  // within which a step is as fast

struct Change {
  std::string label, layout;
  std::string before_id, after_id;         // the first run of each
  size_t runs_before = 0, runs_after = 0;  // repetitions
  double before_s = 0, after_s = 0;        // geometric mean of their step times
  double ratio = 1, lower = 1, upper = 1;  // after / before with its interval
  std::string verdict;                     // one of the four
  /// The least change that would have been seen, as a share.
  double sees() const;
};
/// `least`: a change below is not called faster or slower.
std::string verdict_of(const Change& c, double tolerance, double least = 0);

struct Comparison {
  std::string before, after;               // sets
  std::vector<Change> changes;             // largest first
  size_t only_before = 0, only_after = 0;  // specifications without a partner
  Statistic statistic = kStatistic;        // the statistic of step times that is compared
  RunToRun between;                        // of repetitions
  double busy = 0;                         // log sigma of a median run's step if the machine was busy, else 0
  double ratio = 1, lower = 1, upper = 1;  // geometric mean over specifications, 95 % interval
  size_t count(const std::string& verdict) const;
};
/// "Against s1, s3 is faster in 3 of 8 specifications, …": never more than the verdicts say.
std::string sentence_of(const Comparison& c);

/// Compares the specifications that both sets have; the caller names the sets.
Comparison compare(const BeforeAfter& groups);
std::vector<Comparison> compare(const ReportData& d);

}  // namespace isobar::report
