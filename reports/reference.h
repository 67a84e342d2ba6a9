// Step times to hold later ones against: a file of JSON lines, one a run, which grows with every update and
// so holds the history too.
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

#include "reports/compare.h"

namespace isobar {

struct ReferenceRun {
  std::string experiment;  // hash of the specification but for seed and where files lie
  Measured measured;
  Statistic statistic = kStatistic;
  std::string cpu, host, commit, time_utc;
  int64_t update = 0;  // the how manieth of the file it came with, from 1
};

struct Reference {
  std::vector<ReferenceRun> runs;  // in order of the file
  /// Of each specification the runs of its last update on that processor.
  std::map<std::string, Repetitions> latest(const std::string& cpu) const;
  int64_t updates() const { return runs.empty() ? 0 : runs.back().update; }
};

/// Throws ConfigError naming file and line.
Reference read_reference(const std::filesystem::path& file);
/// The name under which a reference keeps a run's specification.
std::string experiment_id(const ReportRun& r);
/// The finished runs of a report's data, contended ones left out.
std::vector<ReferenceRun> entries_of(const ReportData& d);
/// Adds them as one update, under a lock; makes the file when it is missing.
void append_reference(const std::filesystem::path& file, std::vector<ReferenceRun> runs);

}  // namespace isobar
