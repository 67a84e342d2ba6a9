// A user's runs on accelerators: a table is imported, a machine is fitted to some runs, and the others are
// predicted.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "model/base/error.h"
#include "perfmodel/holdout.h"
#include "perfmodel/predict.h"
#include "tests/import/published_runs.h"

namespace isobar {
namespace {

void print(const char* what, const Holdout& h) {
  std::printf("%s: %zu runs, median error %.1f %%, mean %.1f %%, p90 %.1f %%, interval holds %.0f %%\n", what,
              h.rows.size(), 100 * h.median_error, 100 * h.mape, 100 * h.p90, 100 * h.coverage);
}

const std::vector<MeasuredRun>& aleph() {
  static const std::vector<MeasuredRun> runs = test::published_runs("aleph_alpha_layouts", "A100");
  return runs;
}

TEST(FitImported, HeldOutLayoutsOfAPublishedTableArePredicted) {
  const uint64_t seed = std::random_device{}();
  const std::vector<MeasuredRun>& runs = aleph();
  ASSERT_GT(runs.size(), 100U);
  const HeldOut split = split_runs(runs, 0.5, seed, Together::layout);
  const Holdout before = hold_out(pick(runs, split.test), test::machine("dgx-a100"));
  const Machine fitted = fit(pick(runs, split.train), test::machine("dgx-a100"), {});
  const Holdout after = hold_out(pick(runs, split.test), fitted);
  print("spec sheet", before);
  print("fitted", after);
  EXPECT_LT(after.median_error, 0.11) << "seed " << seed;
  EXPECT_LT(after.mape, before.mape) << "seed " << seed;
  EXPECT_GT(after.coverage, 0.6) << "seed " << seed;
  EXPECT_GT(after.rank_correlation, 0.9) << "seed " << seed;
  for (const HoldoutRow& r : after.rows) EXPECT_FALSE(r.in_fit);

  // The fitted machine survives a round trip through its file: a prediction equals that of the hold-out.
  const Machine read = parse_machine(to_yaml(fitted), "fitted.yaml");
  const MeasuredRun& one = runs[split.test[0]];
  EXPECT_NEAR(predict(one.spec, read, {}).step.value / after.rows[0].predicted, 1, 1e-6);
}

TEST(FitImported, ARunFasterThanItsAcceleratorIsRefusedByName) {
  std::vector<MeasuredRun> runs = aleph();
  runs.resize(4);
  runs[2].step_s /= 10;
  try {
    fit(runs, test::machine("dgx-a100"), {});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("peaks.bf16.value"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(runs[2].id), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace isobar
