#include "model/engine/output/summary.h"

#include <map>
#include <utility>

#include "model/base/step_stats.h"
#include "model/base/text/hash.h"
#include "model/engine/host/host.h"
#include "model/nets/build.h"
#include "model/plan/ops/work.h"

namespace isobar::engine {

records::MemoryRecord memory_of(const plan::Memory& of) {
  records::MemoryRecord m{of.arena, of.host, of.total(), {}};
  for (int k = 0; k < plan::kBufferKinds; ++k)
    m.by_category[plan::name_of(static_cast<plan::BufferKind>(k))] = of.by_kind[k];
  m.by_category["loader"] = of.loader;
  if (of.replay > 0) m.by_category["replay"] = of.replay;
  return m;
}

records::StartRecord start_of_run(const RunSpec& spec, const plan::Plan& plan, int ranks, int ranks_on_host,
                                  int threads, bool resumed) {
  return {.time_utc = utc_now(),
          .resumed = resumed,
          .spec = to_json(spec),
          .ranks = ranks,
          .ranks_on_host = ranks_on_host,
          .threads = threads,
          .plan_hash = sha256_hex(plan::to_text(plan)),
          .parameters = plan.parameter_count(),
          .flops_forward_per_sample = nets::forward_flops_per_sample(spec),
          .memory = memory_of(plan.memory),
          .provenance = provenance()};
}

namespace {

/// Ops by path, in order of first execution; landings of fetches on their lane by a path of their own.
std::vector<records::OpRecord> op_records(const plan::Plan& plan, const std::vector<OpTime>& times) {
  std::vector<records::OpRecord> records;
  std::map<std::string, size_t> by_path;
  const auto add = [&](const plan::Op& op, const std::string& path, plan::Lane lane, int64_t count,
                       double seconds, const plan::Work& each) {
    if (count == 0) return;
    const auto [at, fresh] = by_path.try_emplace(path, records.size());
    if (fresh) {
      records.push_back({.path = path, .kind = plan::name_of(op.kind), .lane = plan::name_of(lane)});
      if (op.part >= 0) records.back().part = {plan.parts[op.part].kind, plan.parts[op.part].path};
    }
    records::OpRecord& sum = records[at->second];
    sum.count += count;
    sum.seconds += seconds;
    sum.flops += each.flops * static_cast<double>(count);
    sum.bytes += each.bytes() * static_cast<double>(count);
  };
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const plan::Op& op = plan.ops[i];
    const OpTime& t = times[i];
    const plan::Work each = plan::work(op, plan);
    add(op, op.path, op.lane, t.count, t.seconds, each);
    add(op, plan::landing_path(op), plan::Lane::h2d, t.landings, t.landing_seconds,
        {.bytes_written = each.bytes_written});
  }
  return records;
}

double seconds_in_compute_ops(const plan::Plan& plan, const std::vector<OpTime>& times) {
  double seconds = 0;
  for (size_t i = 0; i < plan.ops.size(); ++i)
    if (plan.ops[i].lane == plan::Lane::compute) seconds += times[i].seconds;
  return seconds;
}

}  // namespace

records::EndRecord summary_of_run(const RunSpec& spec, const plan::Plan& plan,
                                  const std::vector<OpTime>& times, const std::vector<OpTime>& routine_times,
                                  std::vector<double> step_seconds, double timed_seconds) {
  std::vector<records::RoutineRecord> routines;
  for (size_t i = 0; i < routine_times.size(); ++i)
    if (const OpTime& t = routine_times[i]; t.count > 0)
      routines.push_back({plan.routines[i].name, plan.routines[i].chunk, t.count, t.seconds});
  const bool none = step_seconds.empty();  // a run resumed after its last step has none
  const StepStats s = step_stats(std::move(step_seconds));
  const double step_s = s.of(kStatistic);
  records::EndRecord end{
      .status = "ok",
      .steps = spec.train.steps,
      .step_s = s,
      .samples_per_s = step_s > 0 ? static_cast<double>(spec.train.global_batch) / step_s : 0,
      .peak_rss_bytes = peak_resident_bytes(),
      .file_rss_bytes = file_resident_bytes(),
      .ops = op_records(plan, times)};
  if (!routines.empty()) end.routines = std::move(routines);
  // Ops include waits for collectives. A GPU times ops only while traced.
  if (timed_seconds > 0 || none)
    end.unattributed_share =
        timed_seconds > 0 ? 1 - seconds_in_compute_ops(plan, times) / timed_seconds : 0.0;
  return end;
}

}  // namespace isobar::engine
