// Predictions of the performance model for the runs of a report.
#include <algorithm>
#include <exception>

#include "model/plan/ops/work.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/step/engine_prices.h"
#include "perfmodel/step/op_terms.h"
#include "perfmodel/step/planned_step.h"
#include "reports/data.h"

namespace isobar::report {
namespace {

// Seconds of one execution of each op, from the replay of a steady step.
std::map<std::string, double> op_seconds(const ReportRun& r, const perf::Machine& given) {
  const RunSpec spec = records::spec_as_run(r.run);
  const perf::Machine m = perf::machine_of(spec, given);
  const perf::PlannedStep step(spec, m, options_of(r).host);
  const perf::Counts prices = m.values();
  const perf::Replay steady = step.replayed(prices);
  std::map<int, const plan::Plan*> plan_of;
  for (const nets::StageProgram& stage : step.stages) plan_of[stage.plan.rank] = &stage.plan;
  std::map<std::string, std::pair<double, int64_t>> sums;
  for (const trace::Span& s : steady.timeline.spans) {
    auto& [seconds, count] = sums[plan_of.at(s.rank)->ops.at(static_cast<size_t>(s.op)).path];
    seconds += static_cast<double>(s.end_ns - s.begin_ns) * 1e-9;
    ++count;
  }
  std::map<std::string, double> out;
  for (const auto& [path, sum] : sums) out[path] = sum.first / static_cast<double>(sum.second);
  for (const nets::StageProgram& stage : step.stages)
    for (const plan::Op& op : stage.plan.ops)
      if (op.kind == plan::OpKind::fetch && perf::device_of(m) != perf::Device::cores) {
        perf::OpShape landing = perf::shape_of(op, stage.plan, step.where);
        landing.to_host = true;
        out[plan::landing_path(op)] =
            perf::op_seconds(landing, perf::rates(prices, step.where), step.where, 1);
      }
  return out;
}

}  // namespace

perf::PredictOptions options_of(const ReportRun& r) {
  return {.host = {.ranks_on_host = r.run.ranks_on_host, .threads = r.run.threads},
          .campaign = r.run.provenance.is_object() ? r.run.provenance.value("source", std::string()) : ""};
}

void predict_runs(ReportData& data, const CollectOptions& options) {
  data.predictor = perf::load_machine(options.machine.string());
  data.machine_file = options.machine;
  const perf::Machine& m = *data.predictor;
  data.machine = m.name.empty() ? options.machine.stem().string() : m.name;
  if (m.fit) data.statistic = m.fit->statistic;
  std::map<std::string, RunPrediction> known;  // repetitions are predicted once
  for (ReportRun& r : data.runs) {
    r.statistic = data.statistic;
    if (r.run.run_class != records::RunClass::ok) continue;
    try {
      nlohmann::json key = to_json(r.run.spec);
      key["run"]["out"] = "";
      key["train"]["seed"] = 0;
      key["threads"] = r.run.threads;
      key["ranks_on_host"] = r.run.ranks_on_host;
      key["on_gpu"] = r.run.on_gpu;
      key["campaign"] = options_of(r).campaign;
      RunPrediction& out = known[key.dump()];
      if (out.step_s == 0) {
        perf::PredictOptions how = options_of(r);
        how.workspace = options.workspace;
        const perf::Prediction p = perf::predict(records::spec_as_run(r.run), m, how);
        out.step_s = p.step_s;
        out.lower = p.lower;
        out.upper = p.upper;
        for (const perf::Term& t : p.terms) out.terms.emplace_back(t.name, t.seconds);
        out.memory = p.memory;
        out.memory_total = p.memory_total;
        out.warnings = p.warnings;
      }
      r.prediction = out;
      r.prediction->in_fit =
          m.fit && std::find(m.fit->runs.begin(), m.fit->runs.end(), r.run.id) != m.fit->runs.end();
    } catch (const std::exception& e) {  // a run that cannot be priced does not fail the report
      data.problems.push_back(r.run.id + ": not predicted: " + e.what());
    }
  }
  if (const ReportRun* shown = ops_run(data); shown && shown->prediction) {
    ReportRun& r = data.runs[static_cast<size_t>(shown - data.runs.data())];
    r.prediction->op_s = op_seconds(r, m);
  }
}

}  // namespace isobar::report
