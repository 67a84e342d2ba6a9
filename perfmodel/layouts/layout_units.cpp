#include "perfmodel/layouts/layout_units.h"

#include <algorithm>
#include <cmath>

#include "perfmodel/step/cost.h"

namespace isobar::perf {
namespace {

// Equal units of one section of a chunk that begin in one run, `stride` parts apart
struct Units {
  double count, elements;
  int32_t run;
  double part, stride;  // of the run: part where the first one begins
};

// Closes units as Parameters::part() does: when full and another part follows; at stage 3 with every part.
class Cutter {
 public:
  Cutter(double bucket, bool apart, std::vector<Units>& out) : bucket_(bucket), apart_(apart), out_(out) {}

  void add(int32_t run, double count, double each) {
    if (apart_) {
      emit({count, each, run, 0, 1});
      return;
    }
    if (run == 0 || open_ >= bucket_) close(run, 0);
    if (each == 0) return;
    // The open unit, then all equal full ones
    const double fills = std::min(count, std::max(1.0, std::ceil((bucket_ - open_) / each)));
    open_ += fills * each;
    double left = count - fills;
    if (left == 0) return;
    close(run, fills);
    const double full_parts = std::max(1.0, std::ceil(bucket_ / each));
    const double full = std::max(0.0, std::floor((left - 1) / full_parts));  // the last one stays open
    emit({full, full_parts * each, run, count - left, full_parts});
    left -= full * full_parts;
    close(run, count - left);
    open_ = left * each;
  }
  void end() { close(0, 0); }

 private:
  void close(int32_t run, double part) {  // and begins the next one
    emit({1, open_, begun_run_, begun_part_, 0});
    open_ = 0, begun_run_ = run, begun_part_ = part;
  }
  void emit(const Units& u) {
    if (u.elements > 0 && u.count > 0) out_.push_back(u);
  }
  const double bucket_;
  const bool apart_;
  std::vector<Units>& out_;
  double open_ = 0;  // elements
  int32_t begun_run_ = 0;
  double begun_part_ = 0;
};

struct Timed {
  Units units;
  double seconds;  // of one unit's reduction
};

// Number of these units that begin at this part or earlier
double begun(const Units& u, int32_t run, double part) {
  if (run != u.run) return run < u.run ? 0 : u.count;
  if (part < u.part) return 0;
  return u.stride > 0 ? std::min(u.count, std::floor((part - u.part) / u.stride) + 1) : u.count;
}

// Remaining reductions at each unit's turn. They change linearly between equal units, so the ends of a run
// suffice; where units of another section begin between them, one unit's may be missed.
void add_rests(const std::vector<Timed>& timed, int32_t chunk, std::vector<UnitTimes::Rest>& rests) {
  const auto first = static_cast<std::ptrdiff_t>(rests.size());
  for (const auto& [u, each] : timed)
    for (const double part : {u.part, u.part + (u.count - 1) * u.stride}) {
      const bool known = std::any_of(rests.begin() + first, rests.end(), [&](const UnitTimes::Rest& r) {
        return r.run == u.run && r.parts == part;
      });
      if (known) continue;
      double seconds = 0;
      for (const auto& [other, its] : timed) seconds += begun(other, u.run, part) * its;
      rests.push_back({chunk, u.run, part, seconds});
    }
  std::sort(rests.begin() + first, rests.end(),
            [](const UnitTimes::Rest& a, const UnitTimes::Rest& b) { return a.run < b.run; });
}

// Parameters with equal treatment: tensor parallelism's cut, reader (products or f32 ops), trained or frozen
struct Fate {
  enum Cut { kCut, kExpert, kPartial, kWhole } cut;
  bool matrix;
  bool frozen = false;
  double of(const ParameterCounts& p, bool by_reader) const {
    if (cut == kExpert) return frozen ? p.frozen_expert : p.expert;
    if (cut == kPartial) return matrix && !frozen ? p.partial : 0;
    const bool c = cut == kCut;
    const double all = frozen ? (c ? p.frozen_cut : p.frozen_whole) : (c ? p.cut : p.whole);
    const double read =
        frozen ? (c ? p.frozen_cut_matrix : p.frozen_whole_matrix) : (c ? p.cut_matrix : p.whole_matrix);
    return !by_reader ? all : matrix ? read : all - read;
  }
};

constexpr Fate kFates[] = {
    {Fate::kCut, true},         {Fate::kCut, false},        {Fate::kExpert, true},
    {Fate::kPartial, true},     {Fate::kWhole, true},       {Fate::kWhole, false},
    {Fate::kCut, true, true},   {Fate::kCut, false, true},  {Fate::kExpert, true, true},
    {Fate::kWhole, true, true}, {Fate::kWhole, false, true}};

}  // namespace

UnitTimes unit_times(const NetSections& n, std::span<const StageChunk> chunks, const UnitPolicy& policy,
                     const Counts& rates, const Conditions& where) {
  constexpr double kF32 = 4;
  const bool apart = policy.zero == 3;
  const plan::OpKind kind = policy.zero > 0 ? plan::OpKind::reduce_scatter : plan::OpKind::all_reduce;
  const auto collective = [&](plan::OpKind what, double bytes, double element, const Placement& group) {
    return group.ranks > 1 ? seconds(count_collective(what, bytes, element, group, rates, where), rates) : 0;
  };
  UnitTimes out;
  if (apart) out.parts.resize(n.parts.size());
  std::vector<const PartRun*> timed_by(out.parts.size());  // one run of each part is enough
  thread_local std::vector<Units> units;
  thread_local std::vector<Timed> timed;
  double elements = 0, all = 0;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const StageChunk& chunk = chunks[c];
    timed.clear();
    for (const Fate& fate : kFates) {
      if (fate.frozen && !apart) continue;
      const bool by_reader = policy.by_reader || (fate.frozen && policy.halves);
      if (!fate.matrix && !by_reader) continue;
      const Placement& group = fate.cut == Fate::kCut       ? policy.cut
                               : fate.cut == Fate::kExpert  ? policy.expert
                               : fate.cut == Fate::kPartial ? policy.partial
                                                            : policy.whole;
      if (fate.cut == Fate::kExpert && group.ranks <= 1 && policy.host == 0)
        continue;  // they are on one rank
      const double bytes = fate.matrix ? policy.matrix : kF32;
      units.clear();
      Cutter cutter(policy.bucket, apart, units);
      for (size_t r = 0; r < chunk.runs.size(); ++r)
        cutter.add(static_cast<int32_t>(r), chunk.runs[r].count,
                   fate.of(n.parts[chunk.runs[r].part].parameters, by_reader));
      cutter.end();
      for (const Units& u : units) {
        const double reduce =
            fate.frozen ? 0 : collective(kind, policy.gradient * u.elements, policy.gradient, group);
        const double gather = policy.zero > 0
                                  ? collective(plan::OpKind::all_gather, bytes * u.elements, bytes, group) +
                                        policy.host * bytes * u.elements / group.ranks
                                  : 0;
        const double times = chunk.times * u.count;
        if (!fate.frozen) {
          if (elements == 0) elements = u.elements;
          all += times * u.elements;
          out.units += times;
          out.last_gather = gather;
        }
        out.reduce += times * reduce;
        out.gather += times * gather;
        if (!apart) {
          timed.push_back({u, reduce});
          continue;
        }
        const bool again = fate.of(n.parts[chunk.runs[u.run].part].read_again, by_reader) > 0;
        out.gathers += times * (again ? 2 : 1);
        const PartRun& run = chunk.runs[u.run];
        const int32_t part = run.part;
        if (!timed_by[part]) timed_by[part] = &run;
        if (timed_by[part] != &run) continue;
        out.parts[part].reduce += reduce;
        out.parts[part].gather += gather;
        if (again) out.parts[part].gather_again += gather;
      }
    }
    if (!apart) add_rests(timed, static_cast<int32_t>(c), out.rests);
  }
  out.first_share = all > 0 ? elements / all : 0;
  return out;
}

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
