#include "model/base/measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace isobar {
namespace {

double sum_of_squares(const std::vector<double>& v) {
  double mean = 0, sum = 0;
  for (double x : v) mean += x / static_cast<double>(v.size());
  for (double x : v) sum += (x - mean) * (x - mean);
  return sum;
}

}  // namespace

Noise noise_inside(const std::vector<double>& steps, Statistic statistic) {
  constexpr size_t kBatches = 8, kLeast = 4;
  const size_t batches = std::min(kBatches, steps.size() / 2);
  if (batches < kLeast) return {std::numeric_limits<double>::quiet_NaN(), 0};
  std::vector<double> logs;
  for (size_t b = 0; b < batches; ++b) {
    const auto from = static_cast<std::ptrdiff_t>(b * steps.size() / batches);
    const auto to = static_cast<std::ptrdiff_t>((b + 1) * steps.size() / batches);
    logs.push_back(std::log(step_stats({steps.begin() + from, steps.begin() + to}).of(statistic)));
  }
  const auto n = static_cast<double>(batches);
  return {sum_of_squares(logs) / (n - 1) / n, n - 1};
}

double own_error(const std::vector<double>& steps, const StepStats& stats, Statistic statistic) {
  if (const Noise n = noise_inside(steps, statistic); n.df > 0 && n.variance > 0)
    return std::sqrt(n.variance);
  constexpr double kIndependent = 4;
  const bool low = statistic != Statistic::median;
  const double from = stats.p10, to = low ? stats.median : stats.p90;
  if (stats.count < 1 || from <= 0 || to <= from) return 0;
  const double sigma = std::log(to / from) / ((low ? 1 : 2) * kNormal80);
  const double factor = low ? 1.7094 : 1.2533;
  return factor * sigma / std::sqrt(std::min(kIndependent, static_cast<double>(stats.count)));
}

double contended_error(const StepStats& s) {
  return s.p10 > 0 && s.p90 > s.p10 ? std::log(s.p90 / s.p10) / (2 * kNormal80) : 0;
}

RunToRun run_to_run(const std::vector<std::vector<double>>& repetitions) {
  constexpr double kWeight = 2;
  RunToRun out;
  double squares = kWeight * kAssumedRunToRun * kAssumedRunToRun;
  for (const std::vector<double>& logs : repetitions) {
    if (logs.size() < 2) continue;
    squares += sum_of_squares(logs);
    out.df += static_cast<int64_t>(logs.size()) - 1;
  }
  out.sigma = std::sqrt(squares / (kWeight + static_cast<double>(out.df)));
  return out;
}

}  // namespace isobar
