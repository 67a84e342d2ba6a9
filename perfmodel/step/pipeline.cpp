#include "perfmodel/step/pipeline.h"

#include "model/nets/build.h"
#include "model/plan/layout.h"

namespace isobar::perf {

std::vector<StageProgram> stages_of(const RunSpec& spec, const plan::Workspace& workspace, int first) {
  std::vector<StageProgram> out;
  const std::vector<int> ranks =
      spec.layout.pp > 1 ? plan::group_of(spec.layout, "pp", first) : std::vector<int>{first};
  for (int rank : ranks) {
    StageProgram stage{nets::build_plan(spec, rank, workspace), {}};
    stage.program = nets::link_step(spec, stage.plan, static_cast<int64_t>(ranks.size()));
    out.push_back(std::move(stage));
  }
  return out;
}

}  // namespace isobar::perf
