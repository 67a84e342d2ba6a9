#include "perfmodel/score/scoreboard/constant_mfu.h"

#include <array>
#include <cmath>
#include <vector>

#include "perfmodel/fitting/statistics.h"
#include "perfmodel/score/counts/net_counts.h"

namespace isobar::perf {
namespace {

double peak_of(const PublishedRun& r) {
  return r.gpus * r.gpu->peak(r.precision);
}

/// From the most alike to all.
std::array<std::string, 3> keys_of(const PublishedRun& r) {
  const std::string precision = std::to_string(static_cast<int>(r.precision));
  return {r.gpu->chip() + " " + precision, precision, ""};
}

}  // namespace

ConstantMfu::ConstantMfu(const Samples& others) {
  std::map<std::string, std::map<std::string, std::vector<double>>> said;  // key -> campaign
  for (const Sample* s : others)
    if (s->run && s->run->step_s > 0)
      for (const std::string& key : keys_of(*s->run))
        said[key][s->campaign].push_back(model_flops(*s->run) / (s->run->step_s * peak_of(*s->run)));
  for (const auto& [key, campaigns] : said) {
    std::vector<double> medians;
    for (const auto& [name, mfu] : campaigns) medians.push_back(quantile(mfu, 0.5));
    by_key_[key] = quantile(medians, 0.5);
  }
}

double ConstantMfu::seconds(const PublishedRun& r) const {
  for (const std::string& key : keys_of(r))
    if (const auto mfu = by_key_.find(key); mfu != by_key_.end())
      return model_flops(r) / (mfu->second * peak_of(r));
  return 0;
}

}  // namespace isobar::perf
