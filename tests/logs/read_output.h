// Lines of a program as an OutputReader reads them, each with the second at which it came.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "bench/logs/output_reader.h"

namespace isobar::logs {

struct Output {
  std::vector<records::StepRecord> steps;
  std::vector<records::ValidRecord> valid;
  OutputSummary summary;
  std::map<std::string, int64_t> read_by;
};

struct TimedLine {
  double now;
  std::string text;
};

inline Output read(OutputOptions options, const std::vector<TimedLine>& lines) {
  options.file = "run.yaml";
  OutputReader reader(options);
  Output out;
  const auto take = [&](double now) {
    for (const records::Record& r : reader.take(now)) {
      if (const auto* s = std::get_if<records::StepRecord>(&r)) out.steps.push_back(*s);
      if (const auto* v = std::get_if<records::ValidRecord>(&r)) out.valid.push_back(*v);
    }
  };
  for (const auto& [now, text] : lines) {
    reader.line(text, now);
    take(now);
  }
  reader.end();
  take(lines.back().now);
  out.summary = reader.summary();
  out.read_by = reader.read_by();
  return out;
}

}  // namespace isobar::logs
