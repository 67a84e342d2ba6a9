#include "model/base/step_stats.h"

#include <algorithm>

#include "model/base/error.h"

namespace isobar {
namespace {

struct Named {
  Statistic statistic;
  const char *name, *title;
};
constexpr Named kNames[] = {{Statistic::median, "median", "median of the steps"},
                            {Statistic::p10, "p10", "10th percentile of the steps"},
                            {Statistic::min, "min", "fastest of the steps"}};

double at_share(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

const char* name_of(Statistic s) {
  return kNames[static_cast<size_t>(s)].name;
}

const char* title_of(Statistic s) {
  return kNames[static_cast<size_t>(s)].title;
}

std::vector<std::string> statistic_names() {
  std::vector<std::string> out;
  for (const Named& n : kNames) out.emplace_back(n.name);
  return out;
}

Statistic statistic_of(const std::string& name, const std::string& file, const std::string& key) {
  for (const Named& n : kNames)
    if (name == n.name) return n.statistic;
  throw ConfigError(file, key, "'" + name + "' is no statistic of steps", "say median, p10 or min");
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return at_share(values, share);
}

double StepStats::of(Statistic s) const {
  return s == Statistic::p10 ? p10 : s == Statistic::min ? min : median;
}

StepStats step_stats(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  return {at_share(seconds, 0.5), at_share(seconds, 0.1), at_share(seconds, 0.9), seconds.front(),
          static_cast<int64_t>(seconds.size())};
}

}  // namespace isobar
