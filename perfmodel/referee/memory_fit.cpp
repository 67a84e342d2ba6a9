#include "perfmodel/referee/memory_fit.h"

#include <cmath>

#include "model/base/step_stats.h"
#include "model/base/text/printed.h"
#include "model/nets/build.h"
#include "model/nets/layout/device_memory.h"
#include "perfmodel/machine/device.h"

namespace isobar::perf {

MemoryFit memory_of(const std::vector<MeasuredRun>& runs, const Machine& machine,
                    const std::function<plan::Workspace(int threads)>& workspace_of) {
  MemoryFit out;
  std::vector<double> errors;
  for (const MeasuredRun& r : runs) {
    if (device_of(r.spec, machine) != Device::cores) continue;
    const plan::Workspace workspace = workspace_of(static_cast<int>(r.host.threads));
    if (r.arena_bytes > 0) {  // which is rank 0's
      ++out.runs;
      out.same += nets::build_plan(r.spec, 0, workspace).memory.arena == r.arena_bytes ? 1 : 0;
    }
    if (r.peak_rss_bytes <= 0) continue;
    const double said =
        static_cast<double>(nets::fullest(r.spec, workspace).total()) + machine[Coef::process].value;
    errors.push_back(said / static_cast<double>(r.peak_rss_bytes) - 1);
    out.bias += errors.back();
  }
  out.peaks = errors.size();
  if (errors.empty()) return out;
  out.bias /= static_cast<double>(errors.size());
  for (double& e : errors) e = std::abs(e);
  out.median_error = quantile(errors, 0.5), out.p90 = quantile(errors, 0.9);
  return out;
}

std::string text_of(const MemoryFit& m) {
  std::string text;
  if (m.runs > 0) text = printed("Memory: the planned arena is exact for %zu of %zu runs", m.same, m.runs);
  if (m.peaks > 0)
    text += printed(
        "%s peak memory of %zu runs' processes: median error %.1f %%, 90th percentile %.1f %%, bias %+.1f %%",
        text.empty() ? "Memory:" : ";", m.peaks, 100 * m.median_error, 100 * m.p90, 100 * m.bias);
  return text.empty() ? "" : text + "\n";
}

}  // namespace isobar::perf
