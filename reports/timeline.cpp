#include "reports/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include "model/base/error.h"
#include "model/plan/ops/op_table.h"
#include "model/trace/chrome.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/step/engine_prices.h"
#include "perfmodel/step/planned_step.h"
#include "perfmodel/step/simulate.h"

namespace isobar::report {
namespace {

using Interval = std::pair<double, double>;

constexpr int kRanks = 8;  // most ranks shown

std::vector<Interval> merged(std::vector<Interval> v) {
  std::sort(v.begin(), v.end());
  std::vector<Interval> out;
  for (const Interval& i : v) {
    if (!out.empty() && i.first <= out.back().second)
      out.back().second = std::max(out.back().second, i.second);
    else
      out.push_back(i);
  }
  return out;
}

// Splits [begin, end) at the boundaries of `covers` (merged) and calls use(begin, end, covered).
template <class Use>
void split(double begin, double end, const std::vector<Interval>& covers, const Use& use) {
  double at = begin;
  for (const Interval& c : covers) {
    if (c.second <= at) continue;
    if (c.first >= end) break;
    if (c.first > at) use(at, c.first, false);
    const double to = std::min(end, c.second);
    use(std::max(at, c.first), to, true);
    at = to;
  }
  if (at < end) use(at, end, false);
}

const std::set<std::string>& communication_kinds() {
  static const std::set<std::string> kKinds = [] {
    std::set<std::string> out;
    for (int k = 0; k < plan::kOpKinds; ++k)
      if (plan::is_collective(static_cast<plan::OpKind>(k)))
        out.insert(plan::name_of(static_cast<plan::OpKind>(k)));
    return out;
  }();
  return kKinds;
}

bool is_communication(const trace::OpSpan& s) {
  return communication_kinds().count(s.kind) > 0;
}
bool is_data(const trace::OpSpan& s) {
  return s.kind == plan::name_of(plan::OpKind::fetch);
}

double ms(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

}  // namespace

StepTimeline marked(const std::vector<trace::OpSpan>& spans, double step_ms) {
  StepTimeline out;
  out.step_ms = step_ms;
  std::map<int, std::vector<const trace::OpSpan*>> by_rank;
  for (const trace::OpSpan& s : spans) by_rank[s.rank].push_back(&s);
  out.ranks = static_cast<int>(by_rank.size());
  const double smallest = 0.002 * step_ms;  // ms; shorter gaps are executor overhead
  for (const auto& of_rank : by_rank) {
    const int rank = of_rank.first;
    const std::vector<const trace::OpSpan*>& own = of_rank.second;
    std::vector<Interval> computing, busy, talking;
    for (const trace::OpSpan* s : own) {
      const Interval time = {ms(s->begin_ns), ms(s->end_ns)};
      if (s->lane == plan::Lane::compute) busy.push_back(time);
      if (is_communication(*s))
        talking.push_back(time);
      else if (!is_data(*s))
        computing.push_back(time);
    }
    computing = merged(computing);
    double exposed = 0, idle = 0;
    for (const Interval& t : merged(talking))
      split(t.first, t.second, computing,
            [&](double a, double b, bool covered) { exposed += covered ? 0 : b - a; });
    split(0, step_ms, merged(busy), [&](double a, double b, bool covered) {
      if (covered || b - a < smallest) return;
      idle += b - a;
    });
    out.exposed_ms += exposed / out.ranks;
    out.idle_ms += idle / out.ranks;
    if (rank >= kRanks) continue;  // not drawn
    for (const trace::OpSpan* s : own) {
      const std::string lane = plan::name_of(s->lane);
      if (!is_communication(*s)) {
        out.segments.push_back(
            {rank, lane, is_data(*s) ? "data" : "compute", s->path, ms(s->begin_ns), ms(s->end_ns)});
        continue;
      }
      split(ms(s->begin_ns), ms(s->end_ns), computing, [&](double a, double b, bool covered) {
        out.segments.push_back(
            {rank, lane, covered ? "communication, hidden" : "communication, exposed", s->path, a, b});
      });
    }
  }
  return out;
}

std::optional<MeasuredStep> middle_step(const records::RunRecord& r) {
  const std::filesystem::path file = r.dir / "trace.json";
  if (!std::filesystem::exists(file)) return std::nullopt;
  trace::TraceFile trace = trace::read_chrome_trace(file);
  std::map<int32_t, trace::StepTime> of_rank0;  // by step
  int32_t first = std::numeric_limits<int32_t>::max();
  for (const trace::StepTime& s : trace.steps) {
    first = std::min(first, s.step);
    if (s.rank == 0) of_rank0[s.step] = s;
  }
  if (of_rank0.size() > 1) of_rank0.erase(first);  // the first step is not representative
  if (of_rank0.empty())
    throw ConfigError(file.string(), "traceEvents", "holds no whole step of rank 0",
                      "write it again with `isobar train --trace`");
  std::vector<std::pair<int64_t, int32_t>> lengths;
  for (const auto& [step, time] : of_rank0) lengths.emplace_back(time.end_ns - time.begin_ns, step);
  std::sort(lengths.begin(), lengths.end());
  MeasuredStep out{.step = lengths[lengths.size() / 2].second};
  for (const trace::StepTime& s : trace.steps)
    if (s.step == out.step) out.ranks.push_back(s);
  std::sort(out.ranks.begin(), out.ranks.end(),
            [](const trace::StepTime& a, const trace::StepTime& b) { return a.rank < b.rank; });
  for (trace::OpSpan& s : trace.spans)
    if (s.step == out.step) out.spans.push_back(std::move(s));
  return out;
}

const nets::StageProgram& PredictedStep::of_rank(int rank) const {
  const auto found = std::find_if(stages.begin(), stages.end(),
                                  [&](const nets::StageProgram& stage) { return stage.plan.rank == rank; });
  if (found == stages.end()) throw std::logic_error("rank " + std::to_string(rank) + " was not replayed");
  return *found;
}

PredictedStep predicted_step(const ReportRun& r, const perf::Machine& m) {
  const RunSpec spec = records::spec_as_run(r.run);
  const perf::Machine own = perf::machine_of(spec, m);
  perf::PlannedStep step(spec, own, options_of(r).host);
  perf::Replay steady = step.replayed(own.values());
  PredictedStep out{.stages = std::move(step.stages),
                    .timeline = {},
                    .step_s = perf::predict(spec, m, options_of(r)).step_s};
  const double stretch = out.step_s / steady.step_s;
  const auto stretched = [&](int64_t ns) { return std::llround(stretch * static_cast<double>(ns)); };
  for (trace::Span& s : steady.timeline.spans) {
    s.begin_ns = stretched(s.begin_ns);
    s.end_ns = stretched(s.end_ns);
  }
  for (trace::StepTime& s : steady.timeline.steps) s.end_ns = std::llround(out.step_s * 1e9);
  out.timeline = std::move(steady.timeline);
  return out;
}

std::vector<const ReportRun*> traced_runs(const ReportData& d) {
  std::vector<const ReportRun*> out;
  for (const ReportRun* r : d.ok())
    if (std::filesystem::exists(r->run.dir / "trace.json")) out.push_back(r);
  std::stable_sort(out.begin(), out.end(),
                   [](const ReportRun* a, const ReportRun* b) { return a->rate() > b->rate(); });
  return out;
}

std::optional<StepTimeline> measured_timeline(const records::RunRecord& r) {
  std::optional<MeasuredStep> measured = middle_step(r);
  if (!measured) return std::nullopt;
  const trace::StepTime& rank0 = measured->ranks.front();
  const int64_t begin = rank0.begin_ns, length = rank0.end_ns - begin;
  std::vector<trace::OpSpan> spans;
  for (trace::OpSpan& s : measured->spans) {
    s.begin_ns = std::max<int64_t>(0, s.begin_ns - begin);
    s.end_ns = std::min(length, s.end_ns - begin);
    if (s.end_ns > s.begin_ns) spans.push_back(std::move(s));  // otherwise outside rank 0's step
  }
  return marked(spans, ms(length));
}

StepTimeline predicted_timeline(const ReportRun& r, const perf::Machine& m) {
  const PredictedStep step = predicted_step(r, m);
  std::vector<trace::OpSpan> spans;
  for (const trace::Span& s : step.timeline.spans) {
    const plan::Op& op = step.of_rank(s.rank).plan.ops.at(static_cast<size_t>(s.op));
    spans.push_back({s, op.path, plan::name_of(op.kind)});
  }
  return marked(spans, step.step_s * 1e3);
}

}  // namespace isobar::report
