#include "bench/cli/measured.h"

#include <algorithm>
#include <cstdio>

#include "model/base/error.h"

namespace isobar {

MeasuredRun measured(const RunRecord& r, Statistic statistic, const RunToRun& between) {
  MeasuredRun m;
  m.id = r.id;
  m.spec = spec_as_run(r);
  m.host = {.ranks_on_host = std::max<int64_t>(1, r.ranks_on_host),
            .threads = std::max<int64_t>(1, r.threads),
            .core_trip_ns = r.core_trip_ns()};
  m.step_s = r.step_s.of(statistic);
  m.step_error = step_error(r, statistic);
  m.run_to_run = between.sigma;
  m.contended = r.contention.scattered;  // the distance between its cores has a price of its own
  if (!r.on_gpu) m.arena_bytes = r.arena_bytes;
  m.peak_rss_bytes = r.on_gpu ? 0 : r.peak_rss_bytes;
  m.process_bytes = r.process_bytes;
  if (r.provenance.is_object()) m.campaign = r.provenance.value("source", std::string());
  std::vector<double> checkpoints;
  for (const CheckpointRecord& c : r.checkpoints)
    if (c.seconds > 0) checkpoints.push_back(c.seconds);
  m.checkpoint_s = step_stats(checkpoints).of(statistic);
  for (const OpRecord& op : r.ops) m.ops.push_back({op.path, op.lane, op.count, op.seconds});
  if (!r.on_gpu) m.outside_share = r.unattributed_share;
  return m;
}

bool is_usable(const RunRecord& r, Statistic statistic) {
  return r.run_class == RunClass::ok && r.step_s.of(statistic) > 0;
}

std::vector<MeasuredRun> usable_runs(const std::string& dir, Statistic statistic, bool quiet,
                                     RunToRun* scatter_to) {
  std::vector<std::string> problems;
  const std::vector<RunRecord> all = load_runs(dir, &problems);
  std::vector<const RunRecord*> usable;
  for (const RunRecord& r : all)
    if (is_usable(r, statistic)) usable.push_back(&r);
  const RunToRun between = run_to_run_of(usable, statistic);
  if (scatter_to) *scatter_to = between;
  std::vector<MeasuredRun> out;
  for (const RunRecord* r : usable) out.push_back(measured(*r, statistic, between));
  for (const std::string& p : problems) std::fprintf(stderr, "warning: %s\n", p.c_str());
  if (const size_t failed = all.size() - usable.size(); failed > 0 && !quiet)
    std::fprintf(stderr, "%zu runs without a step time are ignored\n", failed);
  if (out.empty())
    throw ConfigError(dir, "", "holds no successful run",
                      "run `isobar sweep SWEEP.yaml --results " + dir + "`");
  return out;
}

std::string words_of(const RunToRun& between) {
  char text[128];
  if (between.df == 0)
    std::snprintf(text, sizeof text,
                  "repetitions of a run differ by %.1f %% (assumed, because there are none)",
                  100 * between.sigma);
  else
    std::snprintf(text, sizeof text, "repetitions of a run differ by %.1f %% (seen %lld times)",
                  100 * between.sigma, static_cast<long long>(between.df));
  return text;
}

CLI::Option* add_statistic_option(CLI::App& command, Statistic& s, const std::string& more) {
  return command
      .add_option_function<std::string>(
          "--statistic", [&s](const std::string& name) { s = statistic_of(name, "isobar", "--statistic"); },
          "Step time of a run: median, p10 or min of its steps" + more)
      ->check(CLI::IsMember(statistic_names()))
      ->default_str(name_of(kStatistic));
}

}  // namespace isobar
