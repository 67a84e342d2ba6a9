// Chrome trace of a run's last steps, with spans from the device if it can be traced (a GPU), else from the
// runner.
#include "model/base/error.h"
#include "model/engine/observers/observers.h"
#include "model/trace/chrome.h"
#include "model/trace/recorder.h"

namespace isobar::engine {
namespace {

constexpr int64_t kTracedSteps = 10;  // last steps of a run

class StepTrace : public RunObserver {
 public:
  explicit StepTrace(const Observed& o) : o_(o) {
    const RunSpec& spec = o.run.spec;
    if (inference::may_stop_early(spec.train))
      throw ConfigError(spec.file, "train",
                        "may end this run early, and a trace is of its last steps, which are not known then",
                        "trace a run without train.early_stopping_patience and train.jacobian_window");
  }

  void on_start() override {
    const size_t ops = o_.programs.full.instrs.size();
    recorder_.emplace(o_.run.mpi.rank(), ops * static_cast<size_t>(kTracedSteps + 1));
  }
  void on_step_begin(int64_t step, bool) override {
    watched_ = traces(step) && o_.processor.watch(o_.programs.full);
    if (traces(step) && !watched_) o_.processor.runner().record_to(&*recorder_);
  }
  void on_step(const StepResult& r) override {
    const int64_t step = r.record.step - 1, origin = recorder_->origin_ns();
    if (traces(step))
      recorder_->record_step(static_cast<int32_t>(step), r.begin_ns - origin, r.end_ns - origin);
  }
  void on_end(records::EndRecord&) override {
    const auto writing = o_.run.background.slow().begin("writing the trace");
    trace::Timeline timeline = recorder_->take();
    const std::string share = watched_ ? take_watched(timeline) + "\n" : "";
    write(timeline);
    o_.run.say(share + "trace: " + o_.run.options.trace.string());
  }

 private:
  bool traces(int64_t step) const { return step >= o_.run.spec.train.steps - kTracedSteps; }

  // Every rank writes a part; rank 0 merges them.
  void write(const trace::Timeline& timeline) const {
    const comm::Mpi& mpi = o_.run.mpi;
    const std::filesystem::path& path = o_.run.options.trace;
    // Ranks of one host share a clock; times count from rank 0's start.
    const int64_t zero = std::stoll(mpi.from_first(std::to_string(recorder_->origin_ns())));
    const trace::RankTrace trace{&timeline, &o_.plan, &o_.programs.full, recorder_->origin_ns() - zero,
                                 {},        ""};
    trace::write_chrome_trace(trace::part_path(path, mpi.rank()), {trace});
    mpi.barrier();
    if (mpi.rank() != 0) return;
    std::vector<std::filesystem::path> parts;
    parts.reserve(mpi.size());
    for (int r = 0; r < mpi.size(); ++r) parts.push_back(trace::part_path(path, r));
    trace::merge_chrome_traces(parts, path);
  }

  // The device's spans; its times replace the runner's op times. Returns the share of device time that ops
  // have.
  std::string take_watched(trace::Timeline& timeline) const {
    o_.processor.stop_watching();
    trace::DeviceJoin join = o_.processor.watched(recorder_->origin_ns());
    std::vector<OpTime> times(o_.plan.ops.size());
    for (const trace::Span& s : join.spans) {
      OpTime& t = times[s.op];
      const double seconds = static_cast<double>(s.end_ns - s.begin_ns) * 1e-9;
      if (s.lane == o_.programs.full.instrs[s.instr].lane)
        ++t.count, t.seconds += seconds;
      else  // a copy ahead, beside the op itself
        ++t.landings, t.landing_seconds += seconds;
    }
    o_.processor.runner().set_op_times(std::move(times));
    timeline.spans = std::move(join.spans);
    std::string text = trace::to_text(join.share);
    o_.run.log.write(records::DeviceShareRecord{.joined_share = join.share.joined_share(),
                                                .device_s = static_cast<double>(join.share.device_ns) * 1e-9,
                                                .activities = join.share.activities,
                                                .lost = join.share.lost,
                                                .text = text});
    return text;
  }

  const Observed o_;
  std::optional<trace::SpanRecorder> recorder_;  // its clock begins with the first step
  bool watched_ = false;                         // the device times the ops of the current step
};

}  // namespace

std::unique_ptr<RunObserver> step_trace(const Observed& o) {
  return std::make_unique<StepTrace>(o);
}

}  // namespace isobar::engine
