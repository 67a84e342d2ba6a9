// The trials of a sweep to choose from, and the bound that ends the rounds.
#include <gtest/gtest.h>

#include "bench/suggest/suggest_text.h"
#include "bench/suggest/sweep_field.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "tests/paths.h"

namespace isobar::suggest {
namespace {

TEST(RegretBound, IsReadToItsEnd) {
  EXPECT_DOUBLE_EQ(regret_bound("regret<2%"), 0.02);
  EXPECT_DOUBLE_EQ(regret_bound(" regret < 0.5 % "), 0.005);
  for (const char* bad : {"", "regret<2", "regret<%", "regret<2%x", "2%", "regret<1.2.3%"})
    EXPECT_THROW(regret_bound(bad), ConfigError) << bad;
}

class SweepFieldTest : public ::testing::Test {
 protected:
  SweepFieldTest() {
    matrix_ = sweep::expand(sweep::load_sweep_spec(source_dir() + "/configs/sweeps/demo.yaml"));
    options_.machine = source_dir() + "/configs/machines/example-2core.yaml";
    options_.results = source_dir() + "/no-such-results";
  }
  sweep::Matrix matrix_;
  FieldOptions options_;
};

TEST_F(SweepFieldTest, WithoutResultsEveryTrialCanRunAndRoundsStopWithThem) {
  SweepField field(matrix_, options_);
  field.refresh();
  EXPECT_FALSE(field.none_can_run());
  EXPECT_EQ(field.measured_trials(), 0);
  EXPECT_EQ(field.trials(), static_cast<int64_t>(matrix_.trials.size()));
  int64_t shown = 0, ran = 0;
  const RoundsOutcome o = suggest_rounds(
      field, {.count = 3, .bound = 0.5},
      [&](const sweep::Matrix& part) {
        EXPECT_EQ(part.trials.size(), 3u);
        ++ran;
        sweep::SweepOutcome none;
        none.interrupted = true;
        return none;
      },
      [&](const perf::Outlook& outlook) {
        EXPECT_EQ(outlook.next.size(), 3u);
        EXPECT_EQ(json_of(field, outlook).at("next").size(), 3u);
        EXPECT_NE(text_of(field, outlook).find("not measured yet"), std::string::npos);
        ++shown;
      });
  EXPECT_EQ(shown, 1);
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(o.reached) << "predictions alone settle nothing";
}

TEST_F(SweepFieldTest, AcceleratorsAreRefused) {
  options_.machine = source_dir() + "/configs/machines/dgx-h100.yaml";
  EXPECT_THROW(SweepField(matrix_, options_), ConfigError);
}

}  // namespace
}  // namespace isobar::suggest
