#include "model/engine/summary.h"

#include <map>
#include <utility>

#include "model/base/hash.h"
#include "model/base/step_stats.h"
#include "model/engine/host.h"
#include "model/nets/build.h"
#include "model/plan/work.h"

namespace isobar {

nlohmann::json memory_json(const Plan& plan) {
  nlohmann::json by = nlohmann::json::object();
  for (int k = 0; k < kBufferKinds; ++k) by[name_of(static_cast<BufferKind>(k))] = plan.memory.by_kind[k];
  by["loader"] = plan.memory.loader;
  return {{"arena", plan.memory.arena},
          {"host", plan.memory.host},
          {"total", plan.memory.total()},
          {"by_category", by}};
}

nlohmann::json start_of_run(const RunSpec& spec, const Plan& plan, int ranks, int ranks_on_host, int threads,
                            bool resumed) {
  return {{"event", "run_start"},
          {"schema", 1},
          {"time_utc", utc_now()},
          {"resumed", resumed},
          {"spec", to_json(spec)},
          {"ranks", ranks},
          {"ranks_on_host", ranks_on_host},
          {"threads", threads},
          {"plan_hash", sha256_hex(to_text(plan))},
          {"parameters", plan.parameter_count()},
          {"flops_forward_per_sample", forward_flops_per_sample(spec)},
          {"memory", memory_json(plan)},
          {"provenance", provenance()}};
}

nlohmann::json summary_of_run(const RunSpec& spec, const Plan& plan, const std::vector<OpTime>& times,
                              const std::vector<OpTime>& routine_times, std::vector<double> step_seconds,
                              double timed_seconds) {
  struct Sum {
    const Op* op;
    int64_t count = 0;
    double seconds = 0, flops = 0, bytes = 0;
  };
  std::vector<std::string> order;  // of first execution
  std::map<std::string, Sum> by_path;
  double attributed = 0;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    if (times[i].count == 0) continue;
    const Op& op = plan.ops[i];
    auto [at, fresh] = by_path.try_emplace(op.path, Sum{&op});
    if (fresh) order.push_back(op.path);
    const Work w = work(op, plan);
    at->second.count += times[i].count;
    at->second.seconds += times[i].seconds;
    at->second.flops += w.flops * static_cast<double>(times[i].count);
    at->second.bytes += w.bytes() * static_cast<double>(times[i].count);
    if (op.lane == Lane::compute) attributed += times[i].seconds;
  }
  nlohmann::json ops = nlohmann::json::array();
  for (const std::string& path : order) {
    const Sum& s = by_path.at(path);
    ops.push_back({{"path", path},
                   {"kind", name_of(s.op->kind)},
                   {"lane", name_of(s.op->lane)},
                   {"count", s.count},
                   {"seconds", s.seconds},
                   {"flops", s.flops},
                   {"bytes", s.bytes}});
    if (s.op->part >= 0) {
      const Part& part = plan.parts[s.op->part];
      ops.back()["part"] = {{"kind", part.kind}, {"path", part.path}};
    }
  }
  const bool none = step_seconds.empty();  // a run resumed after its last step takes none
  const StepStats s = step_stats(std::move(step_seconds));
  nlohmann::json end = {
      {"event", "run_end"},
      {"status", "ok"},
      {"steps", spec.train.steps},
      {"step_s", {{"median", s.median}, {"p10", s.p10}, {"p90", s.p90}, {"min", s.min}, {"count", s.count}}},
      {"samples_per_s",
       s.of(kStatistic) > 0 ? static_cast<double>(spec.train.global_batch) / s.of(kStatistic) : 0},
      {"peak_rss_bytes", peak_resident_bytes()},
      {"file_rss_bytes", file_resident_bytes()},
      {"ops", ops}};
  for (size_t i = 0; i < routine_times.size(); ++i)
    if (const OpTime& t = routine_times[i]; t.count > 0)
      end["routines"].push_back({{"name", plan.routines[i].name},
                                 {"chunk", plan.routines[i].chunk},
                                 {"count", t.count},
                                 {"seconds", t.seconds}});
  // Waits for collectives are in it. A GPU times ops only while it is traced.
  if (timed_seconds > 0 || none)
    end["unattributed_share"] = timed_seconds > 0 ? 1 - attributed / timed_seconds : 0.0;
  return end;
}

}  // namespace isobar
