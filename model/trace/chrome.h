// Timelines as Chrome trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
// One process per rank, one thread per lane, one more thread with a slice for each whole step; with both
// sides of a rank, measured and predicted, the predicted lane lies under the measured one. Every op is an 'X'
// slice whose args say what it is and costs; a wait of one lane for another is a flow arrow. The file holds
// one event per line, so that parts are merged without parsing them.
//
//   each rank:  write_chrome_trace(part_path("out/trace.json", rank), {trace});
//   rank 0:     merge_chrome_traces({parts...}, "out/trace.json");
//   a report:   TraceFile t = read_chrome_trace("out/trace.json");
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/plan/link.h"
#include "model/trace/span.h"

namespace isobar {

/// Which of a rank's two timelines it is: their tracks are named, and lie one under the other.
enum class TraceSide : uint8_t { only, measured, predicted };

/// Thread ids in the file: lanes, the whole steps, then the same of what was predicted.
inline constexpr int kFirstPredictedTrack = kLanes + 1;

struct RankTrace {
  const Timeline* timeline;
  const Plan* plan;                 // of that rank
  const Program* program;           // what Span::instr indexes: link(plan, plan.train, serial)
  int64_t shift_ns = 0;             // added to all times: this rank's time 0 on the clock of the trace
  std::vector<double> predicted_s;  // by op index, seconds; {}: not known. Shown as args.predicted_us
  std::string label;                // process name; "": "rank N"
  TraceSide side = TraceSide::only;
  std::optional<int> shown_as = std::nullopt;  // rank whose process it is; unset: the plan's
};

/// Writes atomically. Throws std::out_of_range when a span names an op or instr that plan and program lack.
void write_chrome_trace(const std::filesystem::path& path, const std::vector<RankTrace>& ranks);

/// Where rank N writes its part of `path`: dir/trace.json -> dir/trace.rank3.json.
std::filesystem::path part_path(const std::filesystem::path& path, int rank);

/// One file of all parts' events. Atomic. Throws ConfigError for a missing part or one that
/// write_chrome_trace did not write to its end. Removes the parts when done, if `remove_parts`.
void merge_chrome_traces(const std::vector<std::filesystem::path>& parts, const std::filesystem::path& out,
                         bool remove_parts = true);

struct TraceFile {
  std::vector<OpSpan> spans;  // without instr and op (-1), which the file does not hold
  std::vector<StepTime> steps;
};
/// What write_chrome_trace wrote, of one rank or merged, without predicted tracks. Throws ConfigError for a
/// file that is none of its.
TraceFile read_chrome_trace(const std::filesystem::path& path);

}  // namespace isobar
