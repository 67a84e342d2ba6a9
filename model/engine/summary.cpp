#include "model/engine/summary.h"

#include <map>
#include <utility>

#include "model/base/hash.h"
#include "model/base/step_stats.h"
#include "model/engine/host/host.h"
#include "model/nets/build.h"
#include "model/plan/work.h"

namespace isobar {

MemoryRecord memory_of(const Memory& of) {
  MemoryRecord m{of.arena, of.host, of.total(), {}};
  for (int k = 0; k < kBufferKinds; ++k) m.by_category[name_of(static_cast<BufferKind>(k))] = of.by_kind[k];
  m.by_category["loader"] = of.loader;
  if (of.replay > 0) m.by_category["replay"] = of.replay;
  return m;
}

StartRecord start_of_run(const RunSpec& spec, const Plan& plan, int ranks, int ranks_on_host, int threads,
                         bool resumed) {
  return {.time_utc = utc_now(),
          .resumed = resumed,
          .spec = to_json(spec),
          .ranks = ranks,
          .ranks_on_host = ranks_on_host,
          .threads = threads,
          .plan_hash = sha256_hex(to_text(plan)),
          .parameters = plan.parameter_count(),
          .flops_forward_per_sample = forward_flops_per_sample(spec),
          .memory = memory_of(plan.memory),
          .provenance = provenance()};
}

EndRecord summary_of_run(const RunSpec& spec, const Plan& plan, const std::vector<OpTime>& times,
                         const std::vector<OpTime>& routine_times, std::vector<double> step_seconds,
                         double timed_seconds) {
  struct Sum {
    const Op* op;
    int64_t count = 0;
    double seconds = 0, flops = 0, bytes = 0;
  };
  std::vector<std::string> order;  // by first execution
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
  std::vector<OpRecord> ops;
  for (const std::string& path : order) {
    const Sum& sum = by_path.at(path);
    OpRecord& o = ops.emplace_back(OpRecord{.path = path,
                                            .kind = name_of(sum.op->kind),
                                            .lane = name_of(sum.op->lane),
                                            .count = sum.count,
                                            .seconds = sum.seconds,
                                            .flops = sum.flops,
                                            .bytes = sum.bytes});
    if (sum.op->part >= 0) o.part = {plan.parts[sum.op->part].kind, plan.parts[sum.op->part].path};
  }
  std::vector<RoutineRecord> routines;
  for (size_t i = 0; i < routine_times.size(); ++i)
    if (const OpTime& t = routine_times[i]; t.count > 0)
      routines.push_back({plan.routines[i].name, plan.routines[i].chunk, t.count, t.seconds});
  const bool none = step_seconds.empty();  // a run resumed after its last step has none
  const StepStats s = step_stats(std::move(step_seconds));
  const double step_s = s.of(kStatistic);
  EndRecord end{.status = "ok",
                .steps = spec.train.steps,
                .step_s = s,
                .samples_per_s = step_s > 0 ? static_cast<double>(spec.train.global_batch) / step_s : 0,
                .peak_rss_bytes = peak_resident_bytes(),
                .file_rss_bytes = file_resident_bytes(),
                .ops = std::move(ops)};
  if (!routines.empty()) end.routines = std::move(routines);
  // Ops include waits for collectives. A GPU times ops only while traced.
  if (timed_seconds > 0 || none)
    end.unattributed_share = timed_seconds > 0 ? 1 - attributed / timed_seconds : 0.0;
  return end;
}

}  // namespace isobar
