#include "model/records/run_columns.h"

#include <cmath>

#include "model/base/text/json.h"

namespace isobar::records {
namespace {

using nlohmann::json;

const char* sql_type(const json& v) {
  return v.is_boolean() || v.is_number_integer() ? "INTEGER" : v.is_number() ? "REAL" : "TEXT";
}

}  // namespace

json finite(double v) {
  return std::isfinite(v) ? json(v) : json(nullptr);
}

std::vector<RunColumn> run_columns(const RunRecord& r) {
  const json& p = r.provenance;
  const auto known = [&](const char* key) { return p.contains(key) ? p[key] : json(nullptr); };
  std::vector<RunColumn> c = {
      {"id", "TEXT PRIMARY KEY", r.id},
      {"repetition", "INTEGER", r.repetition},
      {"attempt", "INTEGER", r.attempt},
      {"class", "TEXT", name_of(r.run_class)},
      {"complete", "INTEGER", r.complete},
      {"message", "TEXT", r.message},
      {"dir", "TEXT", r.dir.string()},
      {"time_utc", "TEXT", r.time_utc},
      {"wall_s", "REAL", finite(r.wall_s)},
      {"ranks", "INTEGER", r.ranks},
      {"threads", "INTEGER", r.threads},
      {"micro_batch", "INTEGER", r.spec.layout.dp > 0 ? r.spec.micro_batch() : 0},
      {"global_batch", "INTEGER", r.spec.train.global_batch},
      {"plan_hash", "TEXT", r.plan_hash},
      {"parameters", "INTEGER", r.parameters},
      {"flops_forward_per_sample", "REAL", finite(r.flops_forward_per_sample)},
      {"step_s_median", "REAL", r.step_s.median > 0 ? finite(r.step_s.median) : json(nullptr)},
      {"step_s_p10", "REAL", r.step_s.median > 0 ? finite(r.step_s.p10) : json(nullptr)},
      {"step_s_p90", "REAL", r.step_s.median > 0 ? finite(r.step_s.p90) : json(nullptr)},
      {"step_s_min", "REAL", r.step_s.median > 0 ? finite(r.step_s.min) : json(nullptr)},
      {"samples_per_s", "REAL", r.rate(kStatistic) > 0 ? finite(r.rate(kStatistic)) : json(nullptr)},
      {"spread", "REAL", r.step_s.median > 0 ? finite(r.step_s.spread()) : json(nullptr)},
      {"siblings_spread", "REAL", r.contention.siblings > 0 ? json(r.contention.siblings) : json(nullptr)},
      {"contended", "INTEGER", r.contention.marked()},
      {"repeats", "TEXT", r.repeats.empty() ? json(nullptr) : json(r.repeats)},
      {"data_wait_s", "REAL", finite(r.data_wait_s)},
      {"final_loss", "REAL", finite(r.final_loss)},
      {"unattributed_share", "REAL", finite(r.unattributed_share)},
      {"joules_per_sample", "REAL", finite(r.joules_per_sample())},
      {"arena_bytes", "INTEGER", r.arena_bytes},
      {"peak_rss_bytes", "INTEGER", r.peak_rss_bytes},
      {"git_commit", "TEXT", known("commit")},
      {"host", "TEXT", known("host")},
      {"cpu", "TEXT", known("cpu")},
      {"isa", "TEXT", known("isa")},
      {"bf16_mode", "TEXT", known("bf16_mode")},
      {"axes_json", "TEXT", json_text(r.axes)},
      {"memory_json", "TEXT", json_text(json(r.memory_by_category))},
      {"provenance_json", "TEXT", json_text(p)}};
  const json spec = to_json(r.spec);
  for (const auto& [section, keys] : spec.items())
    for (const auto& [key, value] : keys.items())
      c.push_back({std::string(section).append("_").append(key), sql_type(value),
                   value.is_array() ? json(json_text(value)) : value});
  return c;
}

}  // namespace isobar::records
