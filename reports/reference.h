// Reference step times for `isobar check`: a file of JSON lines, one a run, that every update appends to, so
// it also holds the history.
//
//   Reference r = read_reference("reference.jsonl");
//   r.latest(cpu)                                   // by specification: what counts now on that processor
//   append_reference("reference.jsonl", entries_of(collect({"results/demo"}, {})));
//
// A line: {"experiment": …, "label": "2 ranks, bf16", "layout", "id", "statistic": "p10", "step_s": 0.0123,
// "noise": {"variance", "df"} of log step_s, "cpu", "host", "commit", "time_utc", "update": 3}.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reports/comparison/compare.h"

namespace isobar::report {

struct ReferenceRun {
  std::string experiment;  // hash of the specification without seed and file paths
  Measured measured;
  Statistic statistic = kStatistic;
  std::string cpu, host, commit, time_utc;
  int64_t update = 0;  // number of the update that added it, from 1
};

struct Reference {
  std::vector<ReferenceRun> runs;  // in order of the file
  /// For each specification, the runs of its last update on that processor.
  std::map<std::string, Repetitions> latest(const std::string& cpu) const;
  int64_t updates() const { return runs.empty() ? 0 : runs.back().update; }
};

/// Throws ConfigError naming file and line.
Reference read_reference(const std::filesystem::path& file);
/// Key of a run's specification in a reference.
std::string experiment_id(const ReportRun& r);
/// The finished runs of a report's data without contended ones.
std::vector<ReferenceRun> entries_of(const ReportData& d);
/// Appends the runs as one update, under a lock; creates the file if it is missing.
void append_reference(const std::filesystem::path& file, std::vector<ReferenceRun> runs);

}  // namespace isobar::report
