#include "perfmodel/layouts/layout_waits.h"

#include <algorithm>

namespace isobar::perf {
namespace {

class Waits {
 public:
  Waits(const UnitTimes& units, const StageKind& stage, std::span<const PartTime> times,
        const WaitPolicy& policy)
      : u_(units), stage_(stage), times_(times), policy_(policy), slowdown_(policy.slowdown) {
    for (const StageChunk& c : stage.chunks) chunks_ += c.times;
    adding_ = stage.inner;
    if (adding_ == 0)
      for (const PartCount& c : stage.counts) adding_ += c.count;
    w_.backward = w_.added = policy.added;
  }

  /// Without overlap: a gather begins when the previous part's memory is free, and reductions follow the
  /// pass, one unit's addition during the next one's reduction.
  UnitWaits apart() {
    if (policy_.zero == 3) {
      for (const StageChunk& c : stage_.chunks)
        w_.forward += gathered_apart(c, forwards(c), &PartTime::forward, &UnitTimes::Part::gather,
                                     &c == &stage_.chunks.front());
      const double forward = w_.prefetched;
      for (const StageChunk& c : stage_.chunks)
        w_.backward += gathered_apart(c, backwards(c), &PartTime::backward, &UnitTimes::Part::gather_again,
                                      &c == &stage_.chunks.back());
      w_.prefetched_backward = w_.prefetched - forward;
    }
    const double left =
        u_.reduce - std::min(u_.reduce, w_.added) * (1 - chunks_ / std::max(chunks_, u_.units));
    w_.backward += left;
    w_.behind = left;
    return w_;
  }

  /// ZeRO 2: reductions hide under the rest of the chunk's backward pass.
  UnitWaits reductions_beside() {
    const double slower = 1 + slowdown_;
    double left = 0;
    for (size_t c = 0; c < stage_.chunks.size(); ++c)
      left +=
          stage_.chunks[c].times * u_.exposed(stage_.chunks[c], static_cast<int32_t>(c),
                                              [&](const PartRun& r) { return slower * backward_pass(r); });
    w_.slowdown = slowdown_ / slower * std::max(0.0, u_.reduce - left);
    w_.backward += left + w_.slowdown;
    w_.behind = left;
    return w_;
  }

  /// ZeRO 3: during each part the previous one is reduced and the next one gathered.
  UnitWaits all_beside() {
    for (const StageChunk& c : stage_.chunks) w_.forward += forward(c, &c == &stage_.chunks.front());
    const double forward = w_.prefetched;
    for (const StageChunk& c : stage_.chunks) w_.backward += backward(c, &c == &stage_.chunks.back());
    w_.prefetched_backward = w_.prefetched - forward;
    return w_;
  }

 private:
  using Runs = std::vector<PartRun>;
  struct Order {  // the runs of a chunk in the order of a pass
    const Runs& runs;
    bool reversed;
    const PartRun& operator[](size_t i) const { return runs[reversed ? runs.size() - 1 - i : i]; }
  };
  static Order forwards(const StageChunk& c) { return {c.runs, false}; }
  static Order backwards(const StageChunk& c) { return {c.runs, true}; }
  const UnitTimes::Part& unit(const PartRun& r) const { return u_.parts[r.part]; }

  // A part's backward, under which gradients are reduced, with additions spread evenly between the net's
  // ends.
  double backward_pass(const PartRun& r) const {
    const double adds = stage_.inner > 0 ? r.inner / r.count : 1;
    return times_[r.part].backward.seconds + adds * (policy_.added / adding_);
  }

  // The extension of `times` parts, each with a concurrent collective.
  double beside(double times, double compute, double collective) {
    if (times <= 0 || collective <= 0) return 0;
    const double slow = slowdown_ * std::min(compute, collective / (1 + slowdown_));
    w_.slowdown += times * slow;
    return times * (slow + std::max(0.0, collective - compute - slow));
  }

  // A pass waits for its first part, and the second is gathered under it; an idle stage has both before the
  // first micro-batch reaches its `first` chunk.
  double forward(const StageChunk& c, bool first) {
    double all = c.times * unit(c.runs.front()).gather;
    if (first) w_.prefetched += unit(c.runs.front()).gather;
    for (size_t i = 0; i < c.runs.size(); ++i) {
      const PartRun& r = c.runs[i];
      const double pass = times_[r.part].forward.seconds;
      const auto gathers = [&](double times, double gather) {
        if (first && times > 0) {
          const double early = beside(1, pass, gather);
          first = false, w_.prefetched += early, all += early, --times;
        }
        all += beside(times, pass, gather);
      };
      gathers(c.times * (r.count - 1), unit(r).gather);
      if (i + 1 < c.runs.size()) gathers(c.times, unit(c.runs[i + 1]).gather);
    }
    return all;
  }

  // The first part's pass has nothing to reduce beside it. A group's parts after the first are waited for,
  // since only one is gathered under the previous group, as are the last part's reductions.
  double backward(const StageChunk& c, bool first) {
    const Order runs = backwards(c);
    const double wait = unit(runs[0]).gather_again;
    double all = c.times * wait;
    if (first) w_.prefetched += wait;
    for (size_t i = 0; i < c.runs.size(); ++i) {
      const PartRun& r = runs[i];
      const UnitTimes::Part& u = unit(r);
      const double pass = backward_pass(r), at_once = policy_.grouped ? c.times * r.at_once : 0;
      double times = c.times * (r.count - 1);
      const auto early = [&](double gather) {
        const double s = beside(1, pass, gather);
        first = false, w_.prefetched += s, all += s;
      };
      if (first && times > 0) early(u.gather_again), --times;
      all += beside(times - at_once, pass, u.gather_again + u.reduce) + at_once * u.gather_again +
             beside(at_once, pass, u.reduce);
      if (i + 1 == c.runs.size()) break;
      const PartRun& next = runs[i + 1];
      times = c.times;
      if (first) early(unit(next).gather_again), --times;
      all += beside(times, pass, unit(next).gather_again) + beside(c.times, backward_pass(next), u.reduce);
    }
    const double last = c.times * unit(c.runs.front()).reduce;
    w_.behind += last;
    return all + last;
  }

  double gathered_apart(const StageChunk& c, const Order& runs, SectionTime PartTime::*pass,
                        double UnitTimes::Part::*gather, bool first) {
    const double wait = unit(runs[0]).*gather;
    double all = c.times * wait;
    if (first) w_.prefetched += wait;
    for (size_t i = 0; i < c.runs.size(); ++i) {
      // An end's last read is unknown: any op may look up a table.
      const double after = runs[i].inner > 0 ? (times_[runs[i].part].*pass).after_reads : 0;
      const auto gathers = [&](double times, double seconds) {
        const double left = std::max(0.0, seconds - after);
        if (first && times > 0) first = false, w_.prefetched += left;
        all += times * left;
      };
      gathers(c.times * (runs[i].count - 1), unit(runs[i]).*gather);
      if (i + 1 < c.runs.size()) gathers(c.times, unit(runs[i + 1]).*gather);
    }
    return all;
  }

  const UnitTimes& u_;
  const StageKind& stage_;
  const std::span<const PartTime> times_;
  const WaitPolicy& policy_;
  const double slowdown_;
  double chunks_ = 0, adding_ = 0;
  UnitWaits w_;
};

}  // namespace

UnitWaits waits_of(const UnitTimes& units, const StageKind& stage, std::span<const PartTime> times,
                   const WaitPolicy& policy) {
  Waits waits(units, stage, times, policy);
  if (!policy.overlap) return waits.apart();
  return policy.zero == 2 ? waits.reductions_beside() : waits.all_beside();
}

}  // namespace isobar::perf
