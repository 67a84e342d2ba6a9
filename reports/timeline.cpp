#include "reports/timeline.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/json.h"
#include "model/plan/op_table.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/predict.h"
#include "perfmodel/step/simulate.h"

namespace isobar {
namespace {

using nlohmann::json;
using Interval = std::pair<double, double>;

constexpr int kRanks = 8;                     // shown; more cannot be read
constexpr int64_t kTraceValues = 50'000'000;  // some steps of many ranks

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

// Cuts [begin, end) at the borders of `covers` (merged) and calls use(begin, end, covered).
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
    for (int k = 0; k < kOpKinds; ++k)
      if (is_collective(static_cast<OpKind>(k))) out.insert(name_of(static_cast<OpKind>(k)));
    return out;
  }();
  return kKinds;
}

}  // namespace

StepTimeline marked(const std::vector<LaneSpan>& spans, double step_ms) {
  StepTimeline out;
  out.step_ms = step_ms;
  std::map<int, std::vector<const LaneSpan*>> by_rank;
  for (const LaneSpan& s : spans) by_rank[s.rank].push_back(&s);
  out.ranks = static_cast<int>(by_rank.size());
  const double smallest = 0.002 * step_ms;  // gaps below it are the executor's own
  for (const auto& of_rank : by_rank) {
    const int rank = of_rank.first;
    const std::vector<const LaneSpan*>& own = of_rank.second;
    std::vector<Interval> computing, busy, talking;
    for (const LaneSpan* s : own) {
      if (!s->communication && !s->data) computing.emplace_back(s->begin_ms, s->end_ms);
      if (s->lane == "compute") busy.emplace_back(s->begin_ms, s->end_ms);
      if (s->communication) talking.emplace_back(s->begin_ms, s->end_ms);
    }
    computing = merged(computing);
    double exposed = 0, idle = 0;
    for (const Interval& t : merged(talking))
      split(t.first, t.second, computing,
            [&](double a, double b, bool covered) { exposed += covered ? 0 : b - a; });
    const bool shown = rank < kRanks;
    split(0, step_ms, merged(busy), [&](double a, double b, bool covered) {
      if (covered || b - a < smallest) return;
      idle += b - a;
      if (shown) out.segments.push_back({rank, "compute", "idle", "", a, b});
    });
    out.exposed_ms += exposed / out.ranks;
    out.idle_ms += idle / out.ranks;
    if (!shown) continue;
    for (const LaneSpan* s : own) {
      if (!s->communication) {
        out.segments.push_back(
            {rank, s->lane, s->data ? "data" : "compute", s->path, s->begin_ms, s->end_ms});
        continue;
      }
      split(s->begin_ms, s->end_ms, computing, [&](double a, double b, bool covered) {
        out.segments.push_back(
            {rank, s->lane, covered ? "communication, hidden" : "communication, exposed", s->path, a, b});
      });
    }
  }
  return out;
}

namespace {

// `refuse(what)` makes the error.
template <class Refuse>
StepTimeline timeline_of(const json& trace, const Refuse& refuse) {
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array())
    throw refuse("is missing, or the file is no whole JSON");
  std::map<std::pair<int, int>, std::string> lanes;               // (pid, tid) -> name
  std::map<int, std::map<int, std::pair<double, double>>> steps;  // step -> rank -> begin, end
  for (const json& e : trace["traceEvents"]) {
    if (!e.is_object()) throw refuse("holds something that is no event");
    const json args = e.value("args", json::object());
    const int pid = e.value("pid", 0), tid = e.value("tid", 0);
    if (e.value("ph", "") == "M" && e.value("name", "") == "thread_name")
      lanes[{pid, tid}] = args.value("name", "");
    if (e.value("ph", "") == "X" && e.value("cat", "") == "step") {
      const double ts = e.value("ts", 0.0);
      steps[args.value("step", 0)][pid] = {ts, ts + e.value("dur", 0.0)};
    }
  }
  if (steps.empty()) throw refuse("holds no whole step");
  if (steps.size() > 1) steps.erase(steps.begin());  // the first is not like the others
  std::vector<std::pair<double, int>> lengths;
  for (const auto& [step, ranks] : steps)
    if (const auto it = ranks.find(0); it != ranks.end())
      lengths.emplace_back(it->second.second - it->second.first, step);
  if (lengths.empty()) throw refuse("holds no step of rank 0");
  std::sort(lengths.begin(), lengths.end());
  const int step = lengths[lengths.size() / 2].second;
  const auto [begin, end] = steps[step][0];
  std::vector<LaneSpan> spans;
  for (const json& e : trace["traceEvents"]) {
    if (e.value("ph", "") != "X" || e.value("cat", "") == "step") continue;
    const json args = e.value("args", json::object());
    if (args.value("step", -1) != step) continue;
    const int pid = e.value("pid", 0);
    const double ts = e.value("ts", 0.0), from = std::max(0.0, (ts - begin) * 1e-3);
    const double to = std::min((end - begin) * 1e-3, (ts + e.value("dur", 0.0) - begin) * 1e-3);
    if (to <= from) continue;  // before or after rank 0's step
    const std::string kind = e.value("cat", "");
    spans.push_back({pid, lanes[{pid, e.value("tid", 0)}], args.value("path", ""),
                     communication_kinds().count(kind) > 0, kind == "fetch", from, to});
  }
  return marked(spans, (end - begin) * 1e-3);
}

}  // namespace

std::optional<StepTimeline> measured_timeline(const RunRecord& r) {
  const std::filesystem::path file = r.dir / "trace.json";
  if (!std::filesystem::exists(file)) return std::nullopt;
  const auto refuse = [&](const std::string& what) {
    return ConfigError(file.string(), "traceEvents", what, "write it again with `isobar train --trace`");
  };
  try {
    return timeline_of(read_json(file, most::lines, kTraceValues), refuse);
  } catch (const json::exception& e) {  // a field of another type than the trainer writes
    throw refuse(std::string("holds an event that is none of Isobar's: ") + e.what());
  }
}

StepTimeline predicted_timeline(const ReportRun& r, const Machine& m) {
  const RunSpec spec = spec_as_run(r.run);
  const std::vector<StageProgram> stages = stages_of(spec, {});
  const Replay steady = replay(spec, stages, m, predict(spec, m, options_of(r)));
  std::map<int, const Plan*> plan_of;
  for (const StageProgram& stage : stages) plan_of[stage.plan.rank] = &stage.plan;
  std::vector<LaneSpan> spans;
  for (const Span& s : steady.timeline.spans) {
    const Op& op = plan_of.at(s.rank)->ops.at(static_cast<size_t>(s.op));
    spans.push_back({s.rank, name_of(s.lane), op.path, is_collective(op.kind), op.kind == OpKind::fetch,
                     static_cast<double>(s.begin_ns) * 1e-6, static_cast<double>(s.end_ns) * 1e-6});
  }
  return marked(spans, steady.step_s * 1e3);
}

}  // namespace isobar
