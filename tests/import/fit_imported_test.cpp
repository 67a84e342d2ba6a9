// A user's runs on accelerators: a table is imported, a machine is fitted to some runs, and the others are
// predicted.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "model/base/error.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/referee/holdout.h"
#include "tests/import/published_runs.h"

namespace isobar::foreign {
namespace {

void print(const char* what, const perf::Holdout& h) {
  std::printf("%s: %zu runs, median error %.1f %%, mean %.1f %%, p90 %.1f %%, interval holds %.0f %%\n", what,
              h.rows.size(), 100 * h.median_error, 100 * h.mape, 100 * h.p90, 100 * h.coverage);
}

const std::vector<perf::MeasuredRun>& aleph() {
  static const std::vector<perf::MeasuredRun> runs = test::published_runs("aleph_alpha_layouts", "A100");
  return runs;
}

TEST(FitImported, HeldOutLayoutsOfAPublishedTableArePredicted) {
  const uint64_t seed = std::random_device{}();
  const std::vector<perf::MeasuredRun>& runs = aleph();
  ASSERT_GT(runs.size(), 100U);
  const perf::HeldOut split = perf::split_runs(runs, 0.5, seed, perf::Together::layout);
  const perf::Holdout before = perf::hold_out(perf::pick(runs, split.test), test::machine("dgx-a100"));
  const perf::Machine fitted = perf::fit(perf::pick(runs, split.train), test::machine("dgx-a100"));
  const perf::Holdout after = perf::hold_out(perf::pick(runs, split.test), fitted);
  print("spec sheet", before);
  print("fitted", after);
  EXPECT_LT(after.median_error, 0.11) << "seed " << seed;
  EXPECT_LT(after.mape, before.mape) << "seed " << seed;
  EXPECT_GT(after.coverage, 0.6) << "seed " << seed;
  EXPECT_GT(after.rank_correlation, 0.9) << "seed " << seed;
  for (const perf::HoldoutRow& r : after.rows) EXPECT_FALSE(r.in_fit);

  // The fitted machine survives a round trip through its file: a prediction equals that of the hold-out.
  const perf::Machine read = perf::parse_machine(perf::to_yaml(fitted), "fitted.yaml");
  const perf::MeasuredRun& one = runs[split.test[0]];
  EXPECT_NEAR(perf::predict(one.spec, read, {}).step_s / after.rows[0].predicted, 1, 1e-6);
}

TEST(FitImported, ARunFasterThanItsAcceleratorIsRefusedByName) {
  std::vector<perf::MeasuredRun> runs = aleph();
  runs.resize(4);
  runs[2].step_s /= 10;
  try {
    perf::fit(runs, test::machine("dgx-a100"));
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("peaks.bf16.value"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(runs[2].id), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace isobar::foreign
