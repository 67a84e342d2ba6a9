// Predictions of nets that PyTorch recorded: the closed form of searches agrees with the replay of linked
// plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/nets/graph_cut.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/step/simulate.h"
#include "tests/perfmodel/support.h"

namespace isobar {
namespace {

RunSpec recorded_net(const std::string& name, std::vector<std::string> more, int64_t micro_batch = 64) {
  more.insert(more.end(), {"train.global_batch=4096", "policy.micro_batch=" + std::to_string(micro_batch)});
  RunSpec s = load_run_spec(source_dir() + "/tests/fixtures/traced/" + name + ".json", more);
  s.data.workers = 16;  // loaders keep up
  return s;
}

double replay_of_recorded(const RunSpec& s, const Machine& m) {
  const Conditions where = conditions_of(*m.accelerator, s.layout.world(), s.layout.pp);
  return simulate(s, stages_of(s, {}, busiest_rank(s)), m.values(), where,
                  std::numeric_limits<double>::infinity())
      .step_s;
}

// Nets of fixtures are so small that launches set the pace, which a pipeline's closed form knows less
// exactly.
TEST(RecordedNets, ClosedFormAndReplayAgree) {
  const Machine m = test::cluster("dgx-h100");
  std::vector<double> gaps;
  for (const char* name : {"vit", "unet"})
    for (const std::vector<std::string>& layout :
         std::vector<std::vector<std::string>>{{"layout.dp=1"},
                                               {"layout.dp=4", "policy.zero=1", "net.compiled=true"},
                                               {"layout.dp=4", "policy.zero=2", "policy.amp=bf16"},
                                               {"layout.dp=2", "policy.zero=3"},
                                               {"layout.pp=2"},
                                               {"layout.pp=2", "policy.recompute=full", "policy.amp=bf16"},
                                               {"layout.dp=2", "layout.pp=3"}})
      for (const int64_t samples : {64, 512}) {
        const RunSpec s = recorded_net(name, layout, samples);
        LayoutModel model(s, m);
        gaps.push_back(std::abs(model.cost(layout_of(s)).seconds / replay_of_recorded(s, m) - 1));
        EXPECT_LT(gaps.back(), 0.12) << name << " " << layout[0] << ", micro-batch " << samples;
      }
  std::sort(gaps.begin(), gaps.end());
  EXPECT_LT(gaps[gaps.size() / 2], 0.015);
}

TEST(RecordedNets, CompiledStepsAreFasterAndLaunchesCost) {
  const Machine m = test::cluster("dgx-h100");
  const double eager = replay_of_recorded(recorded_net("vit", {}), m),
               compiled = replay_of_recorded(recorded_net("vit", {"net.compiled=true"}), m);
  EXPECT_LT(compiled, 0.95 * eager);
  // Four times the samples a micro-batch are a quarter of the launches, which set the pace of so small a net.
  EXPECT_LT(replay_of_recorded(recorded_net("vit", {}, 256), m), 0.5 * eager);
}

}  // namespace
}  // namespace isobar
