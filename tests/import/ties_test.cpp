// Pairs of measured layouts of one campaign: is the predicted chance that one is faster calibrated?
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "perfmodel/ask/suggest.h"
#include "perfmodel/fitting/layout_fit.h"
#include "tests/import/published_runs.h"

namespace isobar::foreign {
namespace {

TEST(Ties, TheChanceThatOneIsFasterIsThatOfPublishedPairs) {
  int pairs = 0, sure = 0, right = 0;
  double expected = 0;
  for (const auto& [table, accelerator, name] : {std::tuple{"aleph_alpha_layouts", "A100", "dgx-a100"},
                                                 {"zero_bubble_pp", "A100", "dgx-a100"},
                                                 {"nvidia_nemo", "H100", "dgx-h100"},
                                                 {"nvidia_megatron_bridge", "H100", "dgx-h100"}}) {
    const perf::Machine m = test::machine(name);
    const std::vector<perf::MeasuredRun> runs = test::published_runs(table, accelerator, 60);
    perf::LayoutModels models;
    for (size_t i = 0; i < runs.size(); ++i)
      for (size_t j = i + 1; j < runs.size(); ++j) {
        const RunSpec &a = runs[i].spec, &b = runs[j].spec;
        if (to_json(a)["net"] != to_json(b)["net"] || a.layout.world() != b.layout.world() ||
            a.train.global_batch != b.train.global_batch || a.policy.amp != b.policy.amp)
          continue;
        std::vector<perf::Candidate> two;
        for (const RunSpec* s : {&a, &b})
          two.push_back({.spec = *s, .view = perf::view_of(models.of(*s, m), *s)});
        const perf::Outlook o = perf::look_ahead(two, m, {.count = 1});
        const size_t faster = runs[i].step_s < runs[j].step_s ? 0 : 1;
        ++pairs;
        const double chance = o.beliefs[o.choice].chance;
        if (chance < 0.8) continue;
        ++sure;
        expected += chance;
        right += o.choice == faster;
      }
  }
  std::printf("%d pairs, %d with a chance of 80 %% and more: %.0f %% expected, %.0f %% right\n", pairs, sure,
              100 * expected / sure, 100.0 * right / sure);
  ASSERT_GT(sure, 30);
  EXPECT_GT(static_cast<double>(right) / sure, expected / sure - 0.1);
}

}  // namespace
}  // namespace isobar::foreign
