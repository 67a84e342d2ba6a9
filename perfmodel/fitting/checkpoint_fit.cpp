#include "perfmodel/fitting/checkpoint_fit.h"

#include "model/nets/build.h"
#include "perfmodel/step/checkpoint.h"
#include "perfmodel/step/cost.h"

namespace isobar {

std::vector<Observation> checkpoint_observations(const std::vector<MeasuredRun>& runs,
                                                 std::vector<std::string>& sources) {
  std::vector<Observation> out;
  for (const MeasuredRun& run : runs) {
    if (!(run.checkpoint_s > 0)) continue;
    const auto parameters = static_cast<double>(build_plan(run.spec, 0, {}).parameter_count());
    const Counts n = count_checkpoint(run.spec, parameters, run.ranks_on_host);
    out.push_back({.model = [n](const Counts& k) { return seconds(n, k); },
                   .measured = run.checkpoint_s,
                   .sigma = kCheckpointScatter,
                   .felt = {index_of(Coef::commit), index_of(Coef::checkpoint)}});
    sources.push_back(run.id);
  }
  return out;
}

}  // namespace isobar
