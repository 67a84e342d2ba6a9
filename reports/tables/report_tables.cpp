#include "reports/tables/report_tables.h"

#include <algorithm>
#include <set>

#include "reports/style/units.h"

namespace isobar::report {
namespace {

double or_nan(bool known, double v) {
  return known ? v : kNaN;
}

std::vector<const ReportRun*> fastest_first(const ReportData& d) {
  auto runs = d.ok();
  std::stable_sort(runs.begin(), runs.end(),
                   [](const ReportRun* a, const ReportRun* b) { return a->rate() > b->rate(); });
  return runs;
}

std::string steps_word(const ReportRun& r) {
  const std::string again = r.run.repeats.empty() ? "" : "repeat of " + r.run.repeats;
  const std::string marked = r.run.contention.marked() ? "contended" : "";
  return marked + (marked.empty() || again.empty() ? "" : ", ") + again;
}

std::string fitted_word(const ReportRun& r) {
  return !r.prediction ? "" : r.prediction->in_fit ? "in the fit" : "held out";
}

}  // namespace

Table runs_table(const ReportData& d) {
  Table t{
      "runs",
      "Runs: predicted against measured, fastest first",
      {text_column("run"), number_column("ranks"), number_column("threads"),
       number_column("rate", "samples/s"), number_column("measured", "ms"),
       number_column("measured \u00b1", "%"), number_column("predicted", "ms"), number_column("low", "ms"),
       number_column("high", "ms"), number_column("error", "%"), text_column("in 80 %"),
       text_column("run was"), text_column("steps"), number_column("MFU", "%"), text_column("id")}};
  for (const ReportRun* r : fastest_first(d)) {
    const RunPrediction none, &p = r->prediction ? *r->prediction : none;
    const bool known = r->prediction.has_value();
    t.rows.push_back(
        {text(r->label), integer(r->run.ranks), integer(r->run.threads), significant(r->rate(), 4),
         significant(r->measured() * kMs, 4), number(100 * (r->measured_upper() / r->measured() - 1), 1),
         significant(or_nan(known, p.step_s * kMs), 4), significant(or_nan(known, p.lower * kMs), 4),
         significant(or_nan(known, p.upper * kMs), 4), signed_number(known ? r->error() * 100 : kNaN, 1),
         text(!known        ? ""
              : r->inside() ? "yes"
                            : "no"),
         text(fitted_word(*r)), text(steps_word(*r)), significant(100 * reached_by(*r, d).mfu, 3),
         text(r->run.id)});
  }
  t.note =
      "measured: " + std::string(title_of(d.statistic)) +
      " after warm-up, which rate and predictions use too; measured \u00b1: 80 % interval from its steps and "
      "from repetitions, which differ by " +
      number(100 * d.between.sigma, 1).text + " %" +
      (d.between.df == 0 ? " (assumed, because there are none)" : "") +
      "; low to high: 80 % interval of the prediction";
  if (!d.contended().empty())
    t.note +=
        "; contended: its steps scatter far more than those of comparable runs (disturbed by other work), or "
        "its cores were further apart than those of its repetitions (as a hypervisor may place them)";
  return t;
}

Table score_table(const ReportData& d) {
  Table t{
      "score",
      "Accuracy of the predictions",
      {text_column("runs"), number_column("count"), number_column("median error", "%"),
       number_column("mean error", "%"), number_column("bias", "%"), number_column("inside interval", "%")}};
  for (const bool in_fit : {false, true}) {
    const Score s = d.score(in_fit);
    if (s.runs == 0) continue;
    t.rows.push_back({text(in_fit ? "in the fit" : "held out"), integer(static_cast<int64_t>(s.runs)),
                      number(s.median_error * 100, 1), number(s.mean_error * 100, 1),
                      signed_number(s.bias * 100, 1), number(s.coverage * 100, 0)});
  }
  if (!t.rows.empty())
    t.note = "predicted with " + d.machine + "; errors are shares of the measured step (" +
             title_of(d.statistic) + ")";
  return t;
}

Table terms_table(const ReportData& d) {
  Table t{"terms",
          "Predicted step by term",
          {text_column("run"), text_column("id"), text_column("term"), number_column("time", "ms"),
           number_column("share", "%")}};
  for (const ReportRun* r : fastest_first(d)) {
    if (!r->prediction) continue;
    for (const auto& [name, seconds] : r->prediction->terms)
      t.rows.push_back({text(r->label), text(r->run.id), text(name), significant(seconds * kMs, 4),
                        number(100 * seconds / r->prediction->step_s, 1)});
  }
  return t;
}

Table memory_table(const ReportData& d) {
  std::set<std::string> kinds;
  for (const ReportRun* r : d.ok())
    for (const auto& [kind, bytes] : r->run.memory_by_category)
      if (bytes > 0) kinds.insert(kind);
  Table t{"memory", "Memory of one rank, in numbers", {text_column("run")}};
  for (const std::string& k : kinds) t.columns.push_back(number_column(k, "MB"));
  for (const char* name : {"arena", "predicted RSS", "measured RSS"})
    t.columns.push_back(number_column(name, "MB"));
  t.columns.push_back(number_column("error", "%"));
  for (const ReportRun* r : fastest_first(d)) {
    std::vector<Cell> row{text(r->label)};
    for (const std::string& k : kinds) {
      const auto it = r->run.memory_by_category.find(k);
      row.push_back(
          number(it == r->run.memory_by_category.end() ? 0 : static_cast<double>(it->second) * kMB, 1));
    }
    const double predicted = r->prediction ? static_cast<double>(r->prediction->memory_total) : 0;
    const auto measured = static_cast<double>(r->run.peak_rss_bytes);
    row.push_back(number(or_nan(r->run.arena_bytes > 0, static_cast<double>(r->run.arena_bytes) * kMB), 1));
    row.push_back(number(or_nan(predicted > 0, predicted * kMB), 1));
    row.push_back(number(or_nan(measured > 0, measured * kMB), 1));
    row.push_back(signed_number(predicted > 0 && measured > 0 ? (predicted / measured - 1) * 100 : kNaN, 1));
    t.rows.push_back(std::move(row));
  }
  t.note =
      "arena: placed by the plan, to the byte; RSS: resident memory of the process, peak (MB = 10^6 bytes)";
  return t;
}

Table training_table(const ReportData& d) {
  Table t{"training",
          "Validation against persistence (first channel)",
          {text_column("run"), number_column("step"), number_column("loss"), number_column("RMSE"),
           number_column("persistence"), number_column("RMSE/persistence", "%")}};
  for (const ReportRun& r : d.runs)
    for (const records::ValidRecord& v : r.run.valid) {
      const double rmse = v.rmse.empty() ? kNaN : v.rmse[0];
      const double persistence = v.persistence_rmse.empty() ? kNaN : v.persistence_rmse[0];
      t.rows.push_back({text(r.label), integer(v.step), significant(records::or_nan(v.loss), 4),
                        significant(rmse, 4), significant(persistence, 4),
                        number(100 * rmse / persistence, 1)});
    }
  return t;
}

Table failed_table(const ReportData& d) {
  Table t{"failed",
          "Runs that did not finish",
          {text_column("run"), text_column("class"), number_column("after", "s"), text_column("message"),
           text_column("id")}};
  for (const ReportRun* r : d.failed()) {
    const bool ok = r->run.run_class == records::RunClass::ok;
    t.rows.push_back({text(r->label), text(ok ? "ok, untimed" : records::name_of(r->run.run_class)),
                      number(or_nan(r->run.wall_s > 0, r->run.wall_s), 1),
                      text(ok ? "no step was left after warm-up" : r->run.message), text(r->run.id)});
  }
  return t;
}

Table provenance_table(const ReportData& d) {
  constexpr size_t kListed = 6;  // most values of one fact that are listed; more are counted
  Table t{"provenance", "Provenance", {text_column("what"), text_column("value"), number_column("runs")}};
  std::map<std::string, std::map<std::string, int64_t>> seen;  // key -> value -> runs
  for (const ReportRun& r : d.runs) {
    const nlohmann::json flat = r.run.provenance.is_object() && !r.run.provenance.empty()
                                    ? r.run.provenance.flatten()
                                    : nlohmann::json::object();
    for (const auto& [pointer, v] : flat.items()) {
      if (v.is_null() || v.is_structured()) continue;
      std::string key = pointer.substr(1);
      std::replace(key.begin(), key.end(), '/', '.');
      ++seen[key][v.is_string() ? v.get<std::string>() : v.dump()];
    }
    if (!r.run.time_utc.empty()) ++seen["day"][r.run.time_utc.substr(0, 10)];
  }
  for (const auto& [key, values] : seen) {
    if (values.size() > kListed) {
      int64_t runs = 0;
      for (const auto& [value, count] : values) runs += count;
      t.rows.push_back(
          {text(key), text(std::to_string(values.size()) + " different values, as " + values.begin()->first),
           integer(runs)});
      continue;
    }
    for (const auto& [value, count] : values) t.rows.push_back({text(key), text(value), integer(count)});
  }
  for (size_t i = 0; i < d.dirs.size(); ++i)
    t.rows.push_back({text("results"), text(d.dirs[i].string()),
                      integer(std::count_if(d.runs.begin(), d.runs.end(),
                                            [&](const ReportRun& r) { return r.set == d.sets[i]; }))});
  if (!d.machine.empty())
    t.rows.push_back(
        {text("predicted by"), text(d.machine), integer(static_cast<int64_t>(d.predicted().size()))});
  return t;
}

Table pareto_table(const ReportData& d, const ChartData& s) {
  Table t{"pareto",
          "Pareto front of time, memory and cost",
          {text_column("run"), number_column("rate", "samples/s"), number_column("time of a sample", "ms"),
           number_column("memory of a rank", "MB"), number_column("cost", s.cost_title), text_column("id")},
          {},
          std::string("No other run is better in one of the three without being worse in another. Times and "
                      "rates: ") +
              title_of(d.statistic)};
  std::map<std::string, const nlohmann::json*> rows;
  for (const nlohmann::json& row : s.rows)
    if (row["front"] == "on the front") rows[row["id"].get<std::string>() + row.value("set", "")] = &row;
  for (const ReportRun* r : fastest_first(d)) {
    const auto it = rows.find(r->run.id + (d.sets.size() > 1 ? r->set : ""));
    if (it == rows.end()) continue;
    t.rows.push_back({text(r->label), significant(r->rate(), 4),
                      significant(it->second->value("sample_ms", kNaN), 4),
                      significant(it->second->value("memory", kNaN), 4),
                      significant(it->second->value("cost", kNaN), 4), text(r->run.id)});
  }
  return t;
}

Table comparison_table(const Comparison& c, size_t which) {
  Table t{"comparison" + (which > 0 ? "-" + std::to_string(which) : std::string()),
          c.after + " against " + c.before,
          {text_column("run"), number_column("before", "ms"), number_column("after", "ms"),
           number_column("change", "%"), number_column("from", "%"), number_column("to", "%"),
           number_column("runs before"), number_column("runs after"), number_column("sees", "%"),
           text_column("verdict"), text_column("id before"), text_column("id after")},
          {},
          std::string("before, after: ") + title_of(c.statistic) +
              std::string(
                  "; from, to: 95 % interval of all changes together; sees: the least change that would be "
                  "told from noise") +
              (c.between.df > 0 ? "" : ", whose part between repetitions is assumed")};
  for (const Change& x : c.changes)
    t.rows.push_back({text(x.label), significant(x.before_s * kMs, 4), significant(x.after_s * kMs, 4),
                      signed_number(100 * (x.ratio - 1), 1), signed_number(100 * (x.lower - 1), 1),
                      signed_number(100 * (x.upper - 1), 1), integer(static_cast<int64_t>(x.runs_before)),
                      integer(static_cast<int64_t>(x.runs_after)), number(100 * x.sees(), 1), text(x.verdict),
                      text(x.before_id), text(x.after_id)});
  return t;
}

double Roof::seconds(double work_flops, double work_bytes) const {
  return std::max(flops > 0 ? work_flops / flops : 0, bytes > 0 ? work_bytes / bytes : 0);
}

Roof roof_of(const ReportRun& r, const perf::Machine& m) {
  const perf::Conditions where = perf::conditions_of(r.run.spec, m, options_of(r).host);
  const double sharing = perf::device_of(m) == perf::Device::cores ? static_cast<double>(where.ranks_on_host)
                                                                   : 1;  // cores share memory
  return {perf::peak_flops(m, where, perf::peak_of(r.run.spec)), m.peaks.at("memory").value / sharing};
}

Reached reached_by(const ReportRun& r, const ReportData& d) {
  constexpr double kForwardAndBackward = 3;
  const double flops = kForwardAndBackward * r.run.flops_forward_per_sample * r.rate() / r.run.ranks;
  if (!(flops > 0)) return {kNaN, kNaN};
  const double peak = d.predictor ? roof_of(r, *d.predictor).flops : 0;
  return {flops, peak > 0 ? flops / peak : kNaN};
}

std::vector<OpLine> op_lines(const ReportData& d, const ReportRun& r, bool grouped) {
  // Op times may exclude warm-up steps. The number of timed steps is the count of an op that runs once a
  // step.
  int64_t steps = 0;
  for (const records::OpRecord& o : r.run.ops)
    if (o.kind == "adam" && o.count > 0) steps = steps == 0 ? o.count : std::min(steps, o.count);
  if (steps == 0) steps = static_cast<int64_t>(r.run.steps.size());
  std::map<std::string, OpLine> lines;
  for (const records::OpRecord& o : r.run.ops) {
    if (o.count <= 0) continue;
    const std::string path = grouped ? o.path_in_kind() : o.path;
    OpLine& line = lines[path];
    line.path = path;
    line.kind = o.kind;
    line.lane = o.lane;
    const double n = static_cast<double>(std::max<int64_t>(steps, 1));
    const double per_step = static_cast<double>(o.count) / n;
    line.count += per_step;
    line.seconds += o.seconds / n;
    line.flops += o.flops / n;
    line.bytes += o.bytes / n;
    double predicted = kNaN;
    if (r.prediction)
      if (const auto it = r.prediction->op_s.find(o.path); it != r.prediction->op_s.end())
        predicted = it->second * per_step;
    line.predicted_s += predicted;
  }
  std::vector<OpLine> out;
  out.reserve(lines.size());
  const Roof roof = d.predictor ? roof_of(r, *d.predictor) : Roof{};
  for (auto& [path, line] : lines) {
    // The roofline does not model the network, so collectives get no efficiency.
    const double least = line.lane == "compute" ? roof.seconds(line.flops, line.bytes) : 0;
    line.efficiency = least > 0 && line.seconds > 0 ? least / line.seconds : kNaN;
    out.push_back(std::move(line));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const OpLine& a, const OpLine& b) { return a.seconds > b.seconds; });
  return out;
}

Table ops_table(const ReportData& d, const ReportRun& r, bool grouped) {
  Table t{grouped ? "ops" : "ops_all",
          (grouped ? "Ops of " : "Every op of ") + r.label,
          {text_column("op"), text_column("kind"), text_column("lane"), number_column("calls", "/step"),
           number_column("measured", "ms/step"), number_column("predicted", "ms/step"),
           number_column("error", "%"), number_column("share", "%"), number_column("achieved", "GFLOP/s"),
           number_column("predicted", "GFLOP/s"), number_column("achieved", "GB/s"),
           number_column("predicted", "GB/s"), number_column("of roofline", "%")}};
  const std::vector<OpLine> lines = op_lines(d, r, grouped);
  double total = 0;
  for (const OpLine& l : lines) total += l.seconds;
  const auto rate = [](double work, double seconds) {
    return work > 0 && seconds > 0 ? work / seconds * 1e-9 : kNaN;
  };
  for (const OpLine& l : lines)
    t.rows.push_back({text(l.path), text(l.kind), text(l.lane), significant(l.count, 3),
                      significant(l.seconds * kMs, 3), significant(l.predicted_s * kMs, 3),
                      signed_number(l.seconds > 0 ? (l.predicted_s / l.seconds - 1) * 100 : kNaN, 0),
                      number(total > 0 ? 100 * l.seconds / total : kNaN, 1),
                      significant(rate(l.flops, l.seconds), 3), significant(rate(l.flops, l.predicted_s), 3),
                      significant(rate(l.bytes, l.seconds), 3), significant(rate(l.bytes, l.predicted_s), 3),
                      number(100 * l.efficiency, 0)});
  t.note =
      "share: of all op time on all lanes; GFLOP/s are hardware FLOP/s: what an op executes of matrix "
      "products "
      "and attention, recomputation too; of roofline: "
      "the least time that the machine's peak and memory bandwidth allow over the measured one (above 100: "
      "the "
      "data was in cache)";
  return t;
}

}  // namespace isobar::report
