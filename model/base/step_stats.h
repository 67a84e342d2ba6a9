// Statistics of a run's optimizer steps, and which of them is "the step time".
//
//   StepStats s = step_stats({0.051, 0.050, 0.052, 0.093});
//   s.of(Statistic::p10), s.spread(), title_of(Statistic::p10)      // 10th percentile of the steps
//
// A run has one step time, used alike by fit, prediction, hold-out, charts and comparisons, and named
// wherever it is shown. It is kStatistic unless `--statistic` selects another; fitted machine files and
// holdout.json record theirs. The median is the default because it shows what slows half of the steps, such
// as a loader that is too slow; on a shared machine the 10th percentile repeats better.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar {

enum class Statistic : uint8_t { median, p10, min };
inline constexpr Statistic kStatistic = Statistic::median;

const char* name_of(Statistic s);   // "median", "p10", "min": as files and --statistic have it
const char* title_of(Statistic s);  // "median of the steps", ... for people
/// All names.
std::vector<std::string> statistic_names();
/// The inverse of name_of; throws ConfigError(file, key, ...) for anything else.
Statistic statistic_of(const std::string& name, const std::string& file, const std::string& key);

/// Order statistic at `share` with linear interpolation between ranks (numpy's default); 0 of nothing.
double quantile(std::vector<double> values, double share);

struct StepStats {  // seconds per optimizer step, warm-up left out
  double median = 0, p10 = 0, p90 = 0, min = 0;
  int64_t count = 0;  // steps behind them; 0: not known
  double of(Statistic s) const;
  /// (p90 - p10) / median, the scatter of the steps; 0 where unknown.
  double spread() const { return median > 0 && p90 > p10 ? (p90 - p10) / median : 0; }
};
StepStats step_stats(std::vector<double> seconds);

}  // namespace isobar
