// Timelines as Chrome trace JSON, for Perfetto (ui.perfetto.dev) and chrome://tracing.
//
// One process per rank, one thread per lane and one for whole steps; a predicted lane is below its measured
// one. Every op is an 'X' slice whose args hold its work; a wait between lanes is a flow arrow. One event per
// line, so that parts are merged without parsing.
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

namespace isobar::trace {

/// Which of a rank's two timelines it is.
enum class TraceSide : uint8_t { only, measured, predicted };

/// Thread ids: lanes, whole steps, then the same for predicted tracks.
inline constexpr int kFirstPredictedTrack = plan::kLanes + 1;

struct RankTrace {
  const Timeline* timeline;
  const plan::Plan* plan;           // of that rank
  const plan::Program* program;     // indexed by Span::instr: link(plan, plan.train, serial)
  int64_t shift_ns = 0;             // added to all times: this rank's time 0 on the trace's clock
  std::vector<double> predicted_s;  // by op index, seconds; {}: unknown. Shown as args.predicted_us
  std::string label;                // process name; "": "rank N"
  TraceSide side = TraceSide::only;
  std::optional<int> shown_as = std::nullopt;  // rank whose process shows it; unset: the plan's
};

/// Writes atomically. Throws std::out_of_range if a span names an op or instr that plan and program lack.
void write_chrome_trace(const std::filesystem::path& path, const std::vector<RankTrace>& ranks);

/// Rank N's part of `path`: dir/trace.json -> dir/trace.rank3.json.
std::filesystem::path part_path(const std::filesystem::path& path, int rank);

/// Merges all parts' events, atomically. Throws ConfigError for a missing or incomplete part. Removes the
/// parts if `remove_parts`.
void merge_chrome_traces(const std::vector<std::filesystem::path>& parts, const std::filesystem::path& out,
                         bool remove_parts = true);

struct TraceFile {
  std::vector<OpSpan> spans;  // without instr and op (-1), which are not in the file
  std::vector<StepTime> steps;
};
/// Reads a file of write_chrome_trace, merged or not, without predicted tracks. Throws ConfigError for any
/// other file.
TraceFile read_chrome_trace(const std::filesystem::path& path);

}  // namespace isobar::trace
