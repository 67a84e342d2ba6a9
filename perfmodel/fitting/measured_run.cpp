#include "perfmodel/fitting/measured_run.h"

#include <algorithm>

#include "model/base/spec/settings_of_others.h"
#include "model/base/step_stats.h"
#include "model/base/text/printed.h"

namespace isobar::perf {

MeasuredRun measured_run(const records::RunRecord& r, Statistic statistic, const RunToRun& between) {
  MeasuredRun m;
  m.id = r.id;
  m.spec = records::spec_as_run(r);
  m.host = {.ranks_on_host = std::max<int64_t>(1, r.ranks_on_host),
            .threads = std::max<int64_t>(1, r.threads)};
  m.step_s = r.step_s.of(statistic);
  m.step_error = records::step_error(r, statistic);
  m.run_to_run = between.sigma;
  m.contended = r.contention.marked();
  if (!r.on_gpu) m.arena_bytes = r.arena_bytes;
  m.peak_rss_bytes = r.on_gpu ? 0 : r.peak_rss_bytes;
  m.process_bytes = r.process_bytes;
  if (r.provenance.is_object()) m.campaign = r.provenance.value("source", std::string());
  std::vector<double> checkpoints;
  for (const records::CheckpointRecord& c : r.checkpoints)
    if (c.seconds > 0) checkpoints.push_back(c.seconds);
  std::vector<double> imbalances;
  for (const records::StepRecord& s : r.steps)
    if (s.step > r.warmup && s.imbalance) imbalances.push_back(*s.imbalance);
  if (!imbalances.empty()) m.expert_imbalance = quantile(std::move(imbalances), 0.5);
  m.checkpoint_s = step_stats(checkpoints).of(statistic);
  for (const records::OpRecord& op : r.ops) m.ops.push_back({op.path, op.lane, op.count, op.seconds});
  if (!r.on_gpu) m.outside_share = r.unattributed_share;
  return m;
}

bool is_usable(const records::RunRecord& r, Statistic statistic) {
  return r.run_class == records::RunClass::ok && r.step_s.of(statistic) > 0;
}

UsableRuns usable_runs(const std::string& dir, Statistic statistic) {
  UsableRuns out;
  const std::vector<records::RunRecord> all = records::load_runs(dir, &out.problems);
  std::vector<const records::RunRecord*> usable;
  for (const records::RunRecord& r : all)
    if (is_usable(r, statistic) && !has_settings_of_others(r.spec)) usable.push_back(&r);
  out.between = records::run_to_run_of(usable, statistic);
  out.ignored = all.size() - usable.size();
  for (const records::RunRecord* r : usable) out.runs.push_back(measured_run(*r, statistic, out.between));
  return out;
}

std::string words_of(const RunToRun& between) {
  return between.df == 0 ? printed("repetitions of a run differ by %.1f %% (assumed, because there are none)",
                                   100 * between.sigma)
                         : printed("repetitions of a run differ by %.1f %% (seen %lld times)",
                                   100 * between.sigma, static_cast<long long>(between.df));
}

}  // namespace isobar::perf
