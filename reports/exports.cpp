#include <cmath>
#include <ctime>

#include "model/base/system/files.h"
#include "model/records/curves.h"
#include "model/records/files/event_file.h"
#include "model/records/naming.h"
#include "reports/report.h"

namespace isobar::report {
namespace {

using nlohmann::json;

double seconds_of(const std::string& utc) {  // 2026-01-02T03:04:05Z
  std::tm t{};
  return strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &t) ? static_cast<double>(timegm(&t)) : 0;
}

std::string in_set(const ReportData& d, const ReportRun& r, const std::string& name) {
  return (d.sets.size() > 1 ? r.set + "." : std::string()) + name;
}

}  // namespace

size_t write_tensorboard(const ReportData& d, const std::filesystem::path& folder) {
  size_t written = 0;
  for (const ReportRun& r : d.runs) {
    if (r.run.steps.empty()) continue;
    const double begin = seconds_of(r.run.time_utc);
    double now = begin;
    std::string out = records::event_file_head(begin) +
                      records::event_hyperparameters(begin, records::hyperparameters(r.run.spec));
    const records::RunCurves curves(r.run.spec, r.run.set_up.channels.value_or(std::vector<std::string>()));
    const auto add = [&](const auto& record) {
      for (const records::CurvePoint& p : curves.of(record))
        if (std::isfinite(p.value)) out += records::event_record(now, record.step, p.tag, p.value);
    };
    auto valid = r.run.valid.begin();
    const auto validated = [&](int64_t step) {
      for (; valid != r.run.valid.end() && valid->step <= step; ++valid) add(*valid);
    };
    for (const records::StepRecord& s : r.run.steps) {
      validated(s.step - 1);
      now += s.seconds;
      add(s);
      validated(s.step);
    }
    add(r.run.ranks_record);
    // A run alone, or one of several that are all alike in their settings, has only its folder's name.
    const std::string name = r.name == "base" ? in_set(d, r, r.run.id) : r.label;
    write_atomically(folder / records::folder_name(name) / records::event_file_name(begin), out);
    ++written;
  }
  return written;
}

json benchmark_json(const ReportData& d) {
  json out = {{"context",
               {{"executable", "isobar"}, {"json_schema_version", 1}, {"statistic", name_of(d.statistic)}}},
              {"benchmarks", json::array()}};
  std::map<std::string, int64_t> total, index;
  for (const ReportRun* r : d.ok()) ++total[in_set(d, *r, r->name)];
  for (const ReportRun* r : d.ok()) {
    const std::string name = in_set(d, *r, r->name);
    if (!out["context"].contains("date")) {
      out["context"]["date"] = r->run.time_utc;
      out["context"]["host_name"] = r->run.provenance.value("host", json(""));
      out["context"]["num_cpus"] = r->run.provenance.value("cores", json(0));
    }
    out["benchmarks"].push_back({{"name", name},
                                 {"run_name", name},
                                 {"run_type", "iteration"},
                                 {"repetitions", total[name]},
                                 {"repetition_index", index[name]++},
                                 {"threads", r->run.ranks},
                                 {"iterations", std::max<size_t>(1, r->run.steps.size())},
                                 {"real_time", r->measured() * 1e3},
                                 {"cpu_time", r->measured() * 1e3},  // ranks busy-wait
                                 {"time_unit", "ms"},
                                 {"items_per_second", r->rate()},
                                 {"label", r->run.id}});
  }
  return out;
}

size_t write_mlperf(const ReportData& d, const std::filesystem::path& folder) {
  size_t written = 0;
  for (const ReportRun* r : d.ok()) {
    const double begin = seconds_of(r->run.time_utc) * 1e3;
    double now = begin;
    std::string out;
    const auto log = [&](const char* type, const char* key, const json& value, json metadata) {
      const json e = {{"namespace", ""}, {"time_ms", std::llround(now)},   {"event_type", type}, {"key", key},
                      {"value", value},  {"metadata", std::move(metadata)}};
      out += ":::MLLOG " + e.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    };
    const RunSpec& s = r->run.spec;
    log("POINT_IN_TIME", "submission_benchmark", s.net.kind(), json::object());
    log("POINT_IN_TIME", "global_batch_size", s.train.global_batch, json::object());
    log("POINT_IN_TIME", "opt_base_learning_rate", s.train.lr, json::object());
    log("POINT_IN_TIME", "seed", s.train.seed, json::object());
    log("INTERVAL_START", "run_start", nullptr, json::object());
    size_t valid = 0;
    for (const records::StepRecord& step : r->run.steps) {
      now += step.seconds * 1e3;
      if (step.loss) log("POINT_IN_TIME", "train_loss", *step.loss, {{"step", step.step}});
      for (; valid < r->run.valid.size() && r->run.valid[valid].step <= step.step; ++valid)
        log("POINT_IN_TIME", "eval_error", records::or_nan(r->run.valid[valid].loss),
            {{"step", r->run.valid[valid].step}});
    }
    log("POINT_IN_TIME", "tracked_stats", {{"throughput", r->rate()}}, json::object());
    log("INTERVAL_END", "run_stop", nullptr, {{"status", "success"}});
    write_atomically(folder / (in_set(d, *r, r->run.id) + ".log"), out);
    ++written;
  }
  return written;
}

}  // namespace isobar::report
