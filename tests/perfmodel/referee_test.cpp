// The referee: scored rows never reach the fit, and the shipped tables meet their targets.
#include "perfmodel/score/scoreboard/referee.h"
#include "tests/paths.h"

#include <gtest/gtest.h>

#include <random>

namespace isobar::perf {
namespace {

using Split = JudgeOptions::Split;
const std::string kShipped = source_dir() + "/configs/published";

const Library& library() {
  static const Library l = load_library(kShipped);
  return l;
}

PublishedTable table(const std::string& name) {
  return read_published(kShipped + "/" + name + ".csv");
}

TableScore judged(const std::string& name, Split split = Split::folds) {
  JudgeOptions o;
  o.split = split;
  return judge(table(name), library(), o);
}

const ScoredRow& row(const std::vector<ScoredRow>& rows, const std::string& id) {
  for (const ScoredRow& r : rows)
    if (r.id == id) return r;
  throw std::runtime_error("no row " + id);
}

// A row's measurement moves, its own prediction does not: neither through training rows and hyper-parameters
// nor through the library, which has the same row.
TEST(Referee, NothingOfAScoredRowReachesTheFit) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (Split split : {Split::folds, Split::layout, Split::model, Split::gpus, Split::none}) {
    JudgeOptions o;
    o.split = split;
    o.spec_only = split == Split::none;
    PublishedTable t = table("simumax_b200_a100");
    const TableScore before = judge(t, library(), o);
    size_t with_memory = random() % t.runs.size();
    while (t.runs[with_memory].memory_gb <= 0) with_memory = random() % t.runs.size();
    PublishedRun& r = t.runs[with_memory];
    r.step_s *= 3;
    r.memory_gb *= 3;
    const TableScore after = judge(t, library(), o);
    EXPECT_NEAR(row(before.rows, r.id).predicted / row(after.rows, r.id).predicted, 1, 1e-12) << r.id;
    EXPECT_NEAR(row(before.rows, r.id).upper / row(after.rows, r.id).upper, 1, 1e-12) << r.id;
    EXPECT_NEAR(row(before.rows, r.id).lower / row(after.rows, r.id).lower, 1, 1e-12) << r.id;
    EXPECT_NEAR(row(before.memory_rows, r.id).predicted / row(after.memory_rows, r.id).predicted, 1, 1e-12)
        << r.id;
  }
}

TEST(Referee, IsTheSameTwice) {
  const TableScore a = judged("zero_bubble_pp"), b = judged("zero_bubble_pp");
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (size_t i = 0; i < a.rows.size(); ++i) EXPECT_EQ(a.rows[i].predicted, b.rows[i].predicted);
}

TEST(Referee, EveryRowIsPredictedOnceAndWithinItsInterval) {
  for (Split split : {Split::folds, Split::layout, Split::gpus, Split::model, Split::none}) {
    const TableScore s = judged("megatron_sc21_table2", split);
    EXPECT_EQ(s.rows.size(), table("megatron_sc21_table2").runs.size());
    for (const ScoredRow& r : s.rows) {
      EXPECT_LE(r.lower, r.predicted);
      EXPECT_LE(r.predicted, r.upper);
    }
  }
}

TEST(Referee, UnknownCampaignsArePredictedFromTheOthers) {
  PublishedTable t = table("megatron_sc21");
  for (PublishedRun& r : t.runs) {
    r.campaign = r.source = "nobody";
    r.id += "'";
  }
  JudgeOptions o;
  o.split = Split::none;
  EXPECT_LT(judge(t, library(), o).time.mape, 0.2);
  EXPECT_EQ(judge(t, {}, o).rows.size(), t.runs.size());  // even with nothing to learn from
}

struct Target {
  const char* table;
  Split split;
  double mape;  // at most
};

// The project's targets (percent of step time, held out); README.md has the figures.
TEST(Scoreboard, StepTimes) {
  for (const Target& t : std::vector<Target>{{"vtrain_ground_truth", Split::folds, 0.03},
                                             {"vtrain_ground_truth", Split::layout, 0.05},
                                             {"vtrain_ground_truth", Split::points, 0.09},
                                             {"aleph_alpha_layouts", Split::folds, 0.05},
                                             {"aleph_alpha_layouts", Split::layout, 0.06},
                                             {"megatron_sc21", Split::model, 0.04},
                                             {"bigscience_tr11_prequel", Split::folds, 0.06},
                                             {"bigscience_tr11_prequel", Split::layout, 0.08},
                                             {"mosaic_llm_foundry", Split::folds, 0.05},
                                             {"mosaic_llm_foundry", Split::layout, 0.10},
                                             {"nvidia_megatron_bridge", Split::folds, 0.13},
                                             {"dgxc_moe", Split::folds, 0.05}}) {
    const TableScore s = judged(t.table, t.split);
    EXPECT_LE(s.time.mape, t.mape) << t.table << " split " << static_cast<int>(t.split);
    EXPECT_GE(s.time.coverage, 0.6) << t.table << " split " << static_cast<int>(t.split);
  }
}

// Intervals widen for a model, machine or campaign that the fit has not seen.
TEST(Scoreboard, IntervalsOfWhatIsNew) {
  for (const auto& [name, split] :
       std::vector<std::pair<const char*, Split>>{{"zero_bubble_pp", Split::model},
                                                  {"aleph_alpha_layouts", Split::model},
                                                  {"vtrain_ground_truth", Split::model},
                                                  {"simumax_b200_a100", Split::gpus},
                                                  {"zero_bubble_pp", Split::gpus},
                                                  {"bigscience_tr11_prequel", Split::gpus}}) {
    const TableScore s = judged(name, split);
    EXPECT_GE(s.time.coverage, 0.54) << name << " split " << static_cast<int>(split);
    for (const ScoredRow& r : s.rows) EXPECT_LT(r.upper / r.lower, 5) << r.id;  // but stay informative
  }
}

TEST(Scoreboard, SpecSheetAlone) {
  JudgeOptions o;
  o.spec_only = true;
  for (const char* name : {"megatron_sc21", "aleph_alpha_layouts"})
    EXPECT_LE(judge(table(name), library(), o).time.median, 0.16) << name;
  for (const char* name : {"vtrain_ground_truth", "nvidia_nemo", "nvidia_megatron_bridge",
                           "mosaic_llm_foundry", "simumax_b200_a100", "zero_bubble_pp"})
    EXPECT_GE(judge(table(name), library(), o).time.coverage, 0.6) << name;
}

TEST(Scoreboard, MemoryAndOutcomes) {
  EXPECT_LE(judged("simumax_b200_a100").memory->mape, 0.045);
  EXPECT_LE(judged("zero_bubble_pp").memory->mape, 0.03);
  EXPECT_LE(judged("bigscience_tr11_prequel").memory->mape, 0.07);
  const Confusion failed = *judged("aleph_alpha_layouts_oom").outcomes,
                  ran = *judged("aleph_alpha_layouts").outcomes;
  EXPECT_GE(failed.right(), 0.9);
  EXPECT_EQ(failed.misses.size(), static_cast<size_t>(failed.failed_missed));
  EXPECT_GE(double(failed.failed_called + ran.fitted_called) / (failed.rows() + ran.rows()), 0.88);
}

TEST(Scoreboard, Collectives) {
  const CollectiveTable t = collectives_from(read_csv(kShipped + "/collectives.csv"));
  const CollectiveScore folds = judge(t, {});
  EXPECT_LE(folds.time.mape, 0.12);
  EXPECT_LE(folds.large.mape, 0.06);
  JudgeOptions o;
  o.split = Split::up_to;
  o.nodes = 8;
  const CollectiveScore beyond = judge(t, o);
  EXPECT_GT(beyond.large.rows, 50u);
  EXPECT_LE(beyond.large.mape, 0.15);
}

}  // namespace
}  // namespace isobar::perf
