// The bridge to the performance model: what it says about the runs of a report.
#include <algorithm>
#include <exception>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/predict.h"
#include "perfmodel/step/simulate.h"
#include "reports/data.h"

namespace isobar {
namespace {

// Seconds of one execution of each op, out of the replay of a steady step.
std::map<std::string, double> op_seconds(const RunSpec& spec, const Machine& m, const Conditions& where) {
  const std::vector<StageProgram> stages = stages_of(spec, {});
  const Replay replay = simulate(spec, stages, m.values(), where, cache_share(m, where.ranks_on_host));
  std::map<int, const Plan*> plan_of;
  for (const StageProgram& stage : stages) plan_of[stage.plan.rank] = &stage.plan;
  std::map<std::string, std::pair<double, int64_t>> sums;
  for (const Span& s : replay.timeline.spans) {
    auto& [seconds, count] = sums[plan_of.at(s.rank)->ops.at(static_cast<size_t>(s.op)).path];
    seconds += static_cast<double>(s.end_ns - s.begin_ns) * 1e-9;
    ++count;
  }
  std::map<std::string, double> out;
  for (const auto& [path, sum] : sums) out[path] = sum.first / static_cast<double>(sum.second);
  return out;
}

}  // namespace

void predict_runs(ReportData& data, const std::filesystem::path& machine_file) {
  data.predictor = load_machine(machine_file.string());
  const Machine& m = *data.predictor;
  data.machine = m.name.empty() ? machine_file.stem().string() : m.name;
  if (m.fit) data.statistic = m.fit->statistic;
  std::map<std::string, RunPrediction> known;  // repetitions are predicted once
  for (ReportRun& r : data.runs) {
    r.statistic = data.statistic;
    if (r.run.run_class != RunClass::ok) continue;
    try {
      nlohmann::json key = to_json(r.run.spec);
      key["run"]["out"] = "";
      key["train"]["seed"] = 0;
      key["threads"] = r.run.threads;
      RunPrediction& out = known[key.dump()];
      if (out.step_s == 0) {
        const Prediction p = predict(r.run.spec, m, {.threads = r.run.threads});
        out.step_s = p.step_s;
        out.lower = p.lower;
        out.upper = p.upper;
        for (const Term& t : p.terms) out.terms.emplace_back(t.name, t.seconds);
        out.memory = p.memory;
        out.memory_total = p.memory_total;
        out.warnings = p.warnings;
      }
      r.prediction = out;
      r.prediction->in_fit =
          m.fit && std::find(m.fit->runs.begin(), m.fit->runs.end(), r.run.id) != m.fit->runs.end();
    } catch (const std::exception& e) {  // one run that cannot be priced must not cost the report
      data.problems.push_back(r.run.id + ": not predicted: " + e.what());
    }
  }
  if (const ReportRun* shown = ops_run(data); shown && shown->prediction) {
    ReportRun& r = data.runs[static_cast<size_t>(shown - data.runs.data())];
    const Prediction p = predict(r.run.spec, m, {.threads = r.run.threads});
    r.prediction->op_s = op_seconds(r.run.spec, m, p.where);
  }
}

}  // namespace isobar
