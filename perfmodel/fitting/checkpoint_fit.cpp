#include "perfmodel/fitting/checkpoint_fit.h"

#include <cmath>

#include "model/nets/build.h"
#include "perfmodel/step/checkpoint.h"

namespace isobar::perf {

std::vector<Observation> checkpoint_observations(const std::vector<MeasuredRun>& runs, const Storage& storage,
                                                 std::vector<std::string>& sources) {
  std::vector<Observation> out;
  for (const MeasuredRun& run : runs) {
    if (!(run.checkpoint_s > 0)) continue;
    const auto parameters = static_cast<double>(nets::build_plan(run.spec, 0, {}).parameter_count());
    const CheckpointWork w = checkpoint_work(run.spec, parameters, run.host.ranks_on_host);
    out.push_back({.model = [w, storage](const Counts& k) { return checkpoint_seconds(w, k, storage); },
                   .measured = run.checkpoint_s,
                   .sigma = kCheckpointScatter,
                   .felt = {index_of(Coef::commit), index_of(Coef::checkpoint)}});
    sources.push_back(run.id);
  }
  return out;
}

double checkpoint_spread(const Solution& s, size_t count) {
  constexpr double kExpectedRuns = 4;  // runs whose weight the expected spread has
  double squares = kExpectedRuns * kCheckpointScatter * kCheckpointScatter;
  for (Eigen::Index i = s.residuals.size() - static_cast<Eigen::Index>(count); i < s.residuals.size(); ++i)
    squares += s.residuals[i] * s.residuals[i] / (1 - s.leverage[i]);
  return std::sqrt(squares / (kExpectedRuns + static_cast<double>(count)));
}

}  // namespace isobar::perf
