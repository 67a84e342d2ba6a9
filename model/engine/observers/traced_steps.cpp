#include "model/engine/observers/traced_steps.h"

#include "model/trace/chrome.h"

namespace isobar {

TracedSteps::TracedSteps(const Plan& plan, const Program& program, int64_t steps, const Mpi& mpi,
                         Processor& processor)
    : recorder_(mpi.rank(), program.instrs.size() * static_cast<size_t>(kSteps + 1)),
      plan_(plan),
      program_(program),
      steps_(steps),
      mpi_(mpi),
      processor_(processor) {}

void TracedSteps::begin(int64_t step) {
  watched_ = traces(step) && processor_.watch(program_);
  if (traces(step) && !watched_) processor_.runner().record_to(&recorder_);
}

void TracedSteps::end(int64_t step, int64_t t0, int64_t t1) {
  if (traces(step))
    recorder_.record_step(static_cast<int32_t>(step), t0 - recorder_.origin_ns(), t1 - recorder_.origin_ns());
}

std::string TracedSteps::write(const std::filesystem::path& path, ResultLog& log) {
  Timeline timeline = recorder_.take();
  std::string message;
  if (watched_) message = take_watched(timeline, log) + "\n";
  // Ranks of one host share a clock; times count from rank 0's start.
  const int64_t zero = std::stoll(mpi_.from_first(std::to_string(recorder_.origin_ns())));
  RankTrace trace{&timeline, &plan_, &program_, recorder_.origin_ns() - zero, {}, ""};
  write_chrome_trace(part_path(path, mpi_.rank()), {trace});
  mpi_.barrier();
  if (mpi_.rank() == 0) {
    std::vector<std::filesystem::path> parts;
    parts.reserve(mpi_.size());
    for (int r = 0; r < mpi_.size(); ++r) parts.push_back(part_path(path, r));
    merge_chrome_traces(parts, path);
  }
  return message + "trace: " + path.string();
}

// Device trace of the last steps: adds spans, replaces op times, and returns the share of device time
// attributed to ops.
std::string TracedSteps::take_watched(Timeline& timeline, ResultLog& log) {
  processor_.stop_watching();
  DeviceJoin join = processor_.watched(recorder_.origin_ns());
  std::vector<OpTime> times(plan_.ops.size());
  for (const Span& s : join.spans) {
    ++times[s.op].count;
    times[s.op].seconds += static_cast<double>(s.end_ns - s.begin_ns) * 1e-9;
  }
  processor_.runner().set_op_times(std::move(times));
  timeline.spans = std::move(join.spans);
  std::string text = to_text(join.share);
  log.write(DeviceShareRecord{.joined_share = join.share.joined_share(),
                              .device_s = static_cast<double>(join.share.device_ns) * 1e-9,
                              .activities = join.share.activities,
                              .lost = join.share.lost,
                              .text = text});
  return text;
}

}  // namespace isobar
