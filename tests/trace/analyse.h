// Statistics of a timeline, for tests of whether an executor overlaps what it should.
//
//   Analyser a(plan, program);                     // one rank's
//   a.add(recorder.take());                        // repeatable
//   a.steps().back().coverage();  a.ops();
//
// Terms as in HTA and Megatron; every interval is clipped to its step:
//   compute   union of the spans of ops that are neither collectives nor fetches, on any lane
//   comm      union of the spans of collectives, on any lane
//   data      union of the fetches: waiting for the loader and unpacking
//   wait      gap on the compute lane before an op, while an op of another lane that it must wait for runs;
//             at the end of the step, while any other lane runs
//   exposed   comm without compute: |comm \ compute|; the rest of comm is overlapped
//   idle      neither compute, comm nor data
//   covered   compute lane busy or in such a wait; the rest is unattributed: the executor's own time
//   moving    the part of that during a transfer, which the compute lane makes without a communication thread
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/link.h"
#include "model/plan/ops/work.h"
#include "model/trace/span.h"

namespace isobar::trace {

// Sorted disjoint half-open intervals of nanoseconds.
class Intervals {
 public:
  Intervals(int64_t from, int64_t to) : from_(from), to_(to) {}
  void add(int64_t begin, int64_t end) {
    begin = std::max(begin, from_);
    end = std::min(end, to_);
    if (begin < end) list_.emplace_back(begin, end);
    merged_ = false;
  }
  void add(const Intervals& o) {
    for (const auto& [begin, end] : o.list_) add(begin, end);
  }
  double seconds() {
    merge();
    int64_t sum = 0;
    for (const auto& [begin, end] : list_) sum += end - begin;
    return static_cast<double>(sum) * 1e-9;
  }
  /// |this \ o| = |this u o| - |o|
  double seconds_without(const Intervals& o) const {
    Intervals both = *this, other = o;
    both.add(o);
    return both.seconds() - other.seconds();
  }

 private:
  void merge() {
    if (merged_) return;
    std::sort(list_.begin(), list_.end());
    size_t n = 0;
    for (const auto& [begin, end] : list_) {
      if (n > 0 && begin <= list_[n - 1].second)
        list_[n - 1].second = std::max(list_[n - 1].second, end);
      else
        list_[n++] = {begin, end};
    }
    list_.resize(n);
    merged_ = true;
  }
  int64_t from_, to_;
  std::vector<std::pair<int64_t, int64_t>> list_;
  bool merged_ = true;
};

struct StepSplit {  // seconds of one step of one rank
  int32_t rank = 0, step = 0;
  double step_s = 0;
  double compute_s = 0, comm_s = 0, data_s = 0, wait_s = 0, idle_s = 0;
  double exposed_comm_s = 0;
  double exposed_by_lane_s[plan::kLanes] = {};  // collectives of that lane, without compute
  double unattributed_s = 0, moving_s = 0;
  int64_t too_early = 0;  // ops that began before their dependencies ended: a broken executor

  double coverage() const { return step_s > 0 ? 1 - unattributed_s / step_s : 1; }        // share of step
  double overlap() const { return comm_s > 0 ? 1 - exposed_comm_s / comm_s : 0; }         // share of comm
  double unattributed_share() const { return step_s > 0 ? unattributed_s / step_s : 0; }  // share of step
};

struct OpRow {  // all runs of the ops with one path
  std::string path, kind, lane, shape;
  int64_t count = 0;   // spans
  double seconds = 0;  // sum over spans
  double min_s = 0, max_s = 0;
  double flops = 0, bytes = 0, wire_bytes = 0;  // sums over spans, from work()
  double gflops_per_s() const { return seconds > 0 ? flops / seconds * 1e-9 : 0; }
  double gbytes_per_s() const { return seconds > 0 ? bytes / seconds * 1e-9 : 0; }
};

class Analyser {
 public:
  /// Keeps references: both must outlive it.
  Analyser(const plan::Plan& plan, const plan::Program& program);
  /// A step's spans and its StepTime must come in the same call; spans without StepTime count only in ops().
  /// Throws std::out_of_range if a span names an op or instr that does not exist.
  void add(const Timeline& timeline);

  const std::vector<StepSplit>& steps() const { return steps_; }
  std::vector<OpRow> ops() const;  // longest first

 private:
  StepSplit split(const StepTime& step, const std::vector<const Span*>& spans) const;
  const plan::Plan& plan_;
  const plan::Program& program_;
  std::vector<StepSplit> steps_;
  std::map<std::string, OpRow> rows_;
};

inline Analyser::Analyser(const plan::Plan& plan, const plan::Program& program)
    : plan_(plan), program_(program) {}

inline void Analyser::add(const Timeline& timeline) {
  std::map<int32_t, std::vector<const Span*>> by_step;
  for (const Span& s : timeline.spans) {
    by_step[s.step].push_back(&s);
    const plan::Op& op = plan_.ops.at(static_cast<size_t>(s.op));
    OpRow& row = rows_[op.path];
    const double seconds = static_cast<double>(s.end_ns - s.begin_ns) * 1e-9;
    if (row.count == 0) {
      row.path = op.path;
      row.kind = plan::name_of(op.kind);
      row.lane = plan::name_of(s.lane);
      row.shape = plan::shape_text(op);
      row.min_s = seconds;
    }
    const plan::Work w = plan::work(op, plan_);
    ++row.count;
    row.seconds += seconds;
    row.min_s = std::min(row.min_s, seconds);
    row.max_s = std::max(row.max_s, seconds);
    row.flops += w.flops;
    row.bytes += w.bytes();
    row.wire_bytes += w.wire_bytes;
  }
  for (const StepTime& step : timeline.steps) steps_.push_back(split(step, by_step[step.step]));
}

inline StepSplit Analyser::split(const StepTime& step, const std::vector<const Span*>& spans) const {
  const auto empty = [&] { return Intervals(step.begin_ns, step.end_ns); };
  Intervals compute = empty(), comm = empty(), data = empty(), main_lane = empty(), waits = empty();
  std::vector<Intervals> comm_of_lane(plan::kLanes, empty());
  std::map<int32_t, const Span*> by_instr;
  std::vector<const Span*> in_order;  // of the compute lane
  for (const Span* s : spans) {
    by_instr[s->instr] = s;
    const plan::OpKind kind = plan_.ops[static_cast<size_t>(s->op)].kind;
    Intervals& cls = plan::is_collective(kind) ? comm : kind == plan::OpKind::fetch ? data : compute;
    cls.add(s->begin_ns, s->end_ns);
    if (plan::is_collective(kind)) comm_of_lane[static_cast<size_t>(s->lane)].add(s->begin_ns, s->end_ns);
    if (s->lane != plan::Lane::compute) continue;
    main_lane.add(s->begin_ns, s->end_ns);
    in_order.push_back(s);
  }
  std::sort(in_order.begin(), in_order.end(),
            [](const Span* a, const Span* b) { return a->begin_ns < b->begin_ns; });

  StepSplit out{.rank = step.rank, .step = step.step};
  for (const Span* s : spans)
    for (const int32_t producer : program_.instrs.at(static_cast<size_t>(s->instr)).waits)
      if (const auto it = by_instr.find(producer); it != by_instr.end())
        out.too_early += s->begin_ns < it->second->end_ns;
  int64_t free_since = step.begin_ns;
  for (const Span* s : in_order) {
    for (const int32_t producer : program_.instrs[static_cast<size_t>(s->instr)].waits) {
      const auto it = by_instr.find(producer);
      if (it != by_instr.end()) waits.add(free_since, std::min(s->begin_ns, it->second->end_ns));
    }
    free_since = std::max(free_since, s->end_ns);
  }
  for (const Span* s : spans)  // the step ends when every lane has
    if (s->lane != plan::Lane::compute) waits.add(free_since, s->end_ns);

  out.step_s = static_cast<double>(step.end_ns - step.begin_ns) * 1e-9;
  out.compute_s = compute.seconds();
  out.comm_s = comm.seconds();
  out.data_s = data.seconds();
  out.wait_s = waits.seconds();
  out.exposed_comm_s = comm.seconds_without(compute);
  for (size_t l = 0; l < plan::kLanes; ++l)
    out.exposed_by_lane_s[l] = comm_of_lane[l].seconds_without(compute);
  Intervals busy = compute;
  busy.add(comm);
  busy.add(data);
  out.idle_s = out.step_s - busy.seconds();
  Intervals covered = main_lane;
  covered.add(waits);
  out.unattributed_s = out.step_s - covered.seconds();
  out.moving_s = comm.seconds_without(covered);
  return out;
}

inline std::vector<OpRow> Analyser::ops() const {
  std::vector<OpRow> out;
  out.reserve(rows_.size());
  for (const auto& [path, row] : rows_) out.push_back(row);
  std::stable_sort(out.begin(), out.end(),
                   [](const OpRow& a, const OpRow& b) { return a.seconds > b.seconds; });
  return out;
}

/// Median over steps of each number; leaves out the first `warmup` steps if others remain.
inline StepSplit median(std::vector<StepSplit> steps, size_t warmup = 2) {
  if (steps.empty()) return {};
  if (steps.size() > warmup) steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(warmup));
  StepSplit out{.rank = steps[0].rank, .step = -1};
  const auto middle = [&](auto&& get) {
    std::vector<double> v;
    v.reserve(steps.size());
    for (const StepSplit& s : steps) v.push_back(get(s));
    std::sort(v.begin(), v.end());
    return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
  };
  for (double StepSplit::*member :
       {&StepSplit::step_s, &StepSplit::compute_s, &StepSplit::comm_s, &StepSplit::data_s, &StepSplit::wait_s,
        &StepSplit::idle_s, &StepSplit::exposed_comm_s, &StepSplit::unattributed_s})
    out.*member = middle([&](const StepSplit& s) { return s.*member; });
  for (size_t l = 0; l < plan::kLanes; ++l)
    out.exposed_by_lane_s[l] = middle([&](const StepSplit& s) { return s.exposed_by_lane_s[l]; });
  for (const StepSplit& s : steps) out.too_early += s.too_early;
  return out;
}

}  // namespace isobar::trace
