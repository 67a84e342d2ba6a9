// Predictions of the shipped machine files for published clusters to which nothing was fitted; and of a fit
// to several campaigns for one that it has not seen.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "perfmodel/referee/holdout.h"
#include "tests/import/published_runs.h"

namespace isobar::foreign {
namespace {

using test::machine;
using test::published_runs;

void print(const std::string& what, const perf::Holdout& h) {
  std::printf("%-46s %3zu runs, median error %4.1f %%, bias %+5.1f %%, interval holds %3.0f %%\n",
              what.c_str(), h.rows.size(), 100 * h.median_error, 100 * h.bias, 100 * h.coverage);
}

// Engines tuned by their vendors; then untuned ones, and a cluster with half of the machine's network, which
// are slower than a machine file can predict.
TEST(ShippedMachines, PredictPublishedRunsWithinTheirDoubt) {
  struct Case {
    const char *table, *accelerator, *machine;
    bool tuned;
  };
  const Case cases[] = {{"megatron_sc21", "A100", "dgx-a100", true},
                        {"zero_bubble_pp", "A100", "dgx-a100", true},
                        {"mosaic_llm_foundry", "A100", "dgx-a100", true},
                        {"nvidia_nemo", "H100", "dgx-h100", true},
                        {"nvidia_megatron_bridge", "H100", "dgx-h100", true},
                        {"nvidia_megatron_bridge", "B200", "dgx-b200", true},
                        {"nvidia_nemo", "B200", "dgx-b200", true},
                        {"nvidia_megatron_bridge", "GB200", "gb200-nvl72", true},
                        {"nvidia_nemo", "GB200", "gb200-nvl72", true},
                        {"aleph_alpha_layouts", "A100", "dgx-a100", false},
                        {"bigscience_tr11_prequel", "A100", "dgx-a100", false},
                        {"mosaic_llm_foundry", "H100", "dgx-h100", false},
                        {"simumax_b200_a100", "B200", "dgx-b200", false}};
  double tuned = 0, tuned_holds = 0, holds = 0;
  for (const Case& c : cases) {
    const perf::Holdout h = perf::hold_out(published_runs(c.table, c.accelerator, 60), machine(c.machine));
    print(std::string(c.table) + " on " + c.machine, h);
    EXPECT_LT(h.median_error, c.tuned ? 0.2 : 0.36) << c.table << " on " << c.machine;
    tuned += c.tuned;
    tuned_holds += c.tuned ? h.coverage : 0;
    holds += h.coverage;
  }
  std::printf("the interval holds %.0f %% of tuned engines' runs, %.0f %% of all\n",
              100 * tuned_holds / tuned, 100 * holds / static_cast<double>(std::size(cases)));
  EXPECT_GT(tuned_holds / tuned, 0.75);
  EXPECT_GT(holds / static_cast<double>(std::size(cases)), 0.6);
}

// Deviations are common to a campaign: a fit to some must cover another within its interval, and has a
// narrower one for a campaign that it includes.
TEST(ShippedMachines, AFitToSeveralCampaignsKnowsThatAnotherWillDeviate) {
  std::vector<perf::MeasuredRun> runs, other = published_runs("mosaic_llm_foundry", "A100", 30);
  for (const char* table :
       {"megatron_sc21", "zero_bubble_pp", "aleph_alpha_layouts", "bigscience_tr11_prequel"})
    for (const perf::MeasuredRun& r : published_runs(table, "A100", 30)) runs.push_back(r);
  const perf::Holdout before = perf::hold_out(other, machine("dgx-a100"));
  const perf::Machine fitted = perf::fit(runs, machine("dgx-a100"));
  const perf::Holdout known = perf::hold_out(runs, fitted), unknown = perf::hold_out(other, fitted);
  print("never fitted", before);
  print("another campaign", unknown);
  print("campaigns of the fit", known);
  EXPECT_LT(unknown.median_error, before.median_error);
  EXPECT_GT(unknown.coverage, 0.6);
  EXPECT_LT(known.median_error, 0.06);
  const auto width = [](const perf::Holdout& h) {
    double sum = 0;
    for (const perf::HoldoutRow& r : h.rows) sum += std::log(r.upper / r.lower);
    return sum / static_cast<double>(h.rows.size());
  };
  EXPECT_GT(width(unknown), 1.2 * width(known));
  ASSERT_TRUE(fitted.fit->effect_sigma.contains("campaign"));
  EXPECT_GT(fitted.fit->effect_sigma.at("campaign"), 0.04);
}

}  // namespace
}  // namespace isobar::foreign
