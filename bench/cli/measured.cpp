#include "bench/cli/measured.h"

#include <algorithm>
#include <cstdio>

#include "model/base/error.h"

namespace isobar {

MeasuredRun measured(const RunRecord& r, const std::string& statistic) {
  MeasuredRun m;
  m.id = r.id;
  m.spec = spec_as_run(r);
  m.ranks_on_host = std::max<int64_t>(1, r.ranks_on_host);
  m.threads = std::max<int64_t>(1, r.threads);
  m.step_s = r.step_s.of(statistic);
  if (statistic ==
      "median") {  // the spread of steps tells how sure their median is, not how sure the low ones are
    m.step_p10 = r.step_s.p10;
    m.step_p90 = r.step_s.p90;
  }
  m.steps = r.step_s.count;
  m.peak_rss_bytes = r.peak_rss_bytes;
  if (r.provenance.is_object()) m.campaign = r.provenance.value("source", std::string());
  std::vector<double> checkpoints;
  for (const CheckpointRecord& c : r.checkpoints)
    if (c.seconds > 0) checkpoints.push_back(c.seconds);
  m.checkpoint_s = step_stats(checkpoints).of(statistic);
  for (const OpRecord& op : r.ops) m.ops.push_back({op.path, op.lane, op.count, op.seconds});
  return m;
}

bool is_usable(const RunRecord& r, const std::string& statistic) {
  return r.run_class == RunClass::ok && r.step_s.of(statistic) > 0;
}

std::vector<MeasuredRun> usable_runs(const std::string& dir, const std::string& statistic, bool quiet) {
  std::vector<std::string> problems;
  std::vector<MeasuredRun> out;
  int64_t failed = 0;
  for (const RunRecord& r : load_runs(dir, &problems)) {
    if (is_usable(r, statistic))
      out.push_back(measured(r, statistic));
    else
      ++failed;
  }
  for (const std::string& p : problems) std::fprintf(stderr, "warning: %s\n", p.c_str());
  if (failed > 0 && !quiet)
    std::fprintf(stderr, "%lld runs without a step time are left out\n", static_cast<long long>(failed));
  if (out.empty())
    throw ConfigError(dir, "", "holds no successful run",
                      "run `isobar sweep SWEEP.yaml --results " + dir + "`");
  return out;
}

}  // namespace isobar
