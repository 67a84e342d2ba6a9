#include "reports/comparison/side_by_side.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/plan/layout.h"
#include "model/trace/chrome.h"
#include "perfmodel/fitting/fit.h"

namespace isobar::report {
namespace {

// The trace file does not record positions in the program. Ops of a lane run in program order, so the n-th
// span of an op and micro-batch is its n-th instruction.
trace::Timeline joined(const MeasuredStep& measured, int rank, const nets::StageProgram& own,
                       const std::string& file) {
  using Key = std::tuple<plan::Lane, std::string, int32_t>;  // lane, path, micro-batch
  std::map<Key, std::vector<int32_t>> instrs;
  for (size_t i = 0; i < own.program.instrs.size(); ++i) {
    const plan::Instr& instr = own.program.instrs[i];
    instrs[{instr.lane, own.plan.ops[instr.op].path, instr.micro}].push_back(static_cast<int32_t>(i));
  }
  std::vector<const trace::OpSpan*> spans;
  for (const trace::OpSpan& s : measured.spans)
    if (s.rank == rank) spans.push_back(&s);
  std::stable_sort(spans.begin(), spans.end(),
                   [](const trace::OpSpan* a, const trace::OpSpan* b) { return a->begin_ns < b->begin_ns; });
  trace::Timeline out;
  std::map<Key, size_t> seen;
  for (const trace::OpSpan* s : spans) {
    const Key key{s->lane, s->path, s->micro};
    const auto found = instrs.find(key);
    const size_t nth = seen[key]++;
    if (found == instrs.end() || nth >= found->second.size())
      throw ConfigError(file, "traceEvents",
                        "holds " + s->path + " of rank " + std::to_string(rank) +
                            (found == instrs.end() ? ", which the run's plan does not have"
                                                   : " more often than the run's plan does"),
                        "train and trace the run again with this version");
    trace::Span span = *s;
    span.instr = found->second[nth];
    span.op = own.program.instrs[span.instr].op;
    out.spans.push_back(span);
  }
  return out;
}

// Mean predicted seconds of one execution of each op of `plan`; 0 if it was not replayed.
std::vector<double> seconds_by_op(const PredictedStep& predicted, int replayed, const plan::Plan& plan) {
  std::map<std::string, std::pair<double, int64_t>> sums;
  const plan::Plan& of = predicted.of_rank(replayed).plan;
  for (const trace::Span& s : predicted.timeline.spans) {
    if (s.rank != replayed) continue;
    auto& [seconds, count] = sums[of.ops.at(static_cast<size_t>(s.op)).path];
    seconds += static_cast<double>(s.end_ns - s.begin_ns) * 1e-9;
    ++count;
  }
  std::vector<double> out;
  out.reserve(plan.ops.size());
  for (const plan::Op& op : plan.ops) {
    const auto found = sums.find(op.path);
    out.push_back(found == sums.end() ? 0 : found->second.first / static_cast<double>(found->second.second));
  }
  return out;
}

}  // namespace

SideBySide side_by_side(const ReportData& d, const std::function<plan::Workspace(int threads)>& workspace) {
  const std::vector<const ReportRun*> traced = traced_runs(d);
  const std::string asked = "isobar report --perfetto";
  if (!d.predictor)
    throw ConfigError(asked, "", "needs a prediction of the step, and there is no machine file",
                      "add --machine FILE, of `isobar fit` or `isobar calibrate`");
  if (traced.empty())
    throw ConfigError(asked, "", "needs a measured step, and no run has a trace.json",
                      "train one with `--set run.out=RUN --trace RUN/trace.json`");
  const ReportRun& r = *traced.front();
  if (!r.prediction)
    throw ConfigError(asked, "", r.run.dir.string() + " was traced but not predicted",
                      "the warnings of `isobar report` say why");
  const std::string file = (r.run.dir / "trace.json").string();
  const MeasuredStep measured = *middle_step(r.run);
  const RunSpec spec = records::spec_as_run(r.run);
  SideBySide out;
  out.run = &r;
  out.step = measured.step;
  out.predicted = predicted_step(r, *d.predictor);
  int64_t zero = measured.ranks.front().begin_ns;
  for (const trace::StepTime& s : measured.ranks) zero = std::min(zero, s.begin_ns);
  const plan::Workspace planned = workspace ? workspace(static_cast<int>(r.run.threads)) : plan::Workspace{};
  for (trace::StepTime s : measured.ranks) {
    if (s.rank < 0 || s.rank >= spec.layout.world())
      throw ConfigError(
          file, "traceEvents",
          "holds rank " + std::to_string(s.rank) + " of a run of " + std::to_string(spec.layout.world()),
          "train and trace the run again");
    nets::StageProgram own{nets::build_plan(spec, s.rank, planned), {}};
    own.program = nets::link_step(spec, own.plan, static_cast<int64_t>(measured.ranks.size()));
    trace::Timeline timeline = joined(measured, s.rank, own, file);
    for (trace::Span& span : timeline.spans) {
      span.begin_ns -= zero;
      span.end_ns -= zero;
    }
    s.begin_ns -= zero;
    s.end_ns -= zero;
    timeline.steps.push_back(s);
    const size_t stage = out.predicted.stages.size() > 1 ? plan::coords_of(spec.layout, s.rank).pp : 0;
    out.stands_for.push_back(out.predicted.stages.at(stage).plan.rank);
    out.measured.push_back(std::move(timeline));
    out.ranks.push_back(std::move(own));
  }
  return out;
}

void SideBySide::write(const std::filesystem::path& file) const {
  std::map<int, trace::Timeline> replayed;  // by rank
  for (trace::Span s : predicted.timeline.spans) {
    s.step = step;  // same number as the measured step
    replayed[s.rank].spans.push_back(s);
  }
  for (trace::StepTime s : predicted.timeline.steps) {
    s.step = step;
    replayed[s.rank].steps.push_back(s);
  }
  std::vector<trace::RankTrace> traces;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i].plan.rank, stand_in = stands_for[i];
    const nets::StageProgram& stage = predicted.of_rank(stand_in);
    trace::RankTrace measured_side{&measured[i], &ranks[i].plan, &ranks[i].program};
    measured_side.predicted_s = seconds_by_op(predicted, stand_in, ranks[i].plan);
    measured_side.side = trace::TraceSide::measured;
    trace::RankTrace predicted_side{&replayed.at(stand_in), &stage.plan, &stage.program};
    predicted_side.side = trace::TraceSide::predicted;
    predicted_side.shown_as = rank;
    predicted_side.shift_ns = measured[i].steps.front().begin_ns;
    traces.push_back(std::move(measured_side));
    traces.push_back(std::move(predicted_side));
  }
  trace::write_chrome_trace(file, traces);
}

}  // namespace isobar::report
