// Contended trials: which are marked, and that they are run once more without replacing results.
#include "model/records/contention.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "bench/sweep/results/repeats.h"
#include "bench/sweep/results/summary.h"
#include "support.h"

namespace isobar::sweep {
namespace {

std::vector<size_t> marked(const std::vector<records::Signs>& trials) {
  std::vector<size_t> out;
  const std::vector<records::Contention> all = records::contention_of(trials);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].marked()) out.push_back(i);
  return out;
}

TEST(Contention, MarksWhatScattersFarMoreThanItsSiblings) {
  const std::vector<size_t> nobody;
  EXPECT_EQ(marked({{2, 0.06}, {2, 0.09}, {2, 1.24}, {2, 0.05}, {2, 0.11}}), (std::vector<size_t>{2}));
  EXPECT_EQ(marked({{2, 0.01}, {2, 0.01}, {2, 0.12}, {2, 0.01}, {2, 0.01}}), nobody) << "12 % are little";
  EXPECT_EQ(marked({{2, 0.8}, {2, 0.9}, {2, 1.24}, {2, 0.7}, {2, 1.1}}), nobody) << "busy throughout";
  EXPECT_EQ(marked({{2, 0.06}, {2, 1.24}, {2, 0.05}, {2, 0.05}}), nobody) << "three siblings are too few";
  EXPECT_EQ(marked({{2, 0.06}, {2, -1}, {2, 1.24}, {2, -1}, {2, 0.05}, {2, -1}}), nobody)
      << "what was not timed is no sibling";
  EXPECT_EQ(records::contention_of({}).size(), 0u);
}

TEST(Contention, ATrialWhoseCoresOthersHadIsBusyHoweverEvenItsStepsAre) {
  const auto c =
      records::contention_of({{2, 0.02}, {2, 0.02, 0.02, 0.5}, {2, 0.02, 0.02, 0.05}, {2, -1, 0, 0.5}});
  EXPECT_FALSE(c[0].busy || c[2].busy || c[3].busy);
  EXPECT_TRUE(c[1].busy);
  EXPECT_FALSE(c[1].marked()) << "nothing stands out";
  EXPECT_DOUBLE_EQ(c[1].taken, 0.5);
}

TEST(Contention, SiblingsHaveAsManyRanksWhereThereAreEnough) {
  std::vector<records::Signs> trials;
  for (int i = 0; i < 6; ++i) {
    trials.push_back({1, 0.05});
    trials.push_back({4, 0.4});  // oversubscribed ranks always scatter
  }
  EXPECT_EQ(marked(trials), std::vector<size_t>{});
  trials.push_back({1, 0.4});
  EXPECT_EQ(marked(trials), (std::vector<size_t>{12}));
  trials.push_back({8, 1.3});  // the only one with 8 ranks: all others are its siblings
  EXPECT_EQ(marked(trials), (std::vector<size_t>{12, 13}));
}

TEST(Contention, TheMedianLeavesTheTrialItselfOut) {
  const auto c = records::contention_of({{1, 0.5}, {1, 0.1}, {1, 0.2}, {1, 0.3}, {1, 0.4}});
  EXPECT_DOUBLE_EQ(c[0].siblings, 0.25);
  EXPECT_DOUBLE_EQ(c[1].siblings, 0.35);
  EXPECT_DOUBLE_EQ(c[3].siblings, 0.3);
}

std::vector<records::Contention> by_repetitions(const std::vector<std::pair<const char*, double>>& trials) {
  std::vector<records::Signs> signs;
  for (const auto& [repeated, step_s] : trials)
    signs.push_back({.ranks = 1, .spread = 0.05, .step_s = step_s, .repeated = repeated});
  return records::contention_of(signs);
}

std::vector<size_t> slowed(const std::vector<std::pair<const char*, double>>& trials) {
  std::vector<size_t> out;
  const std::vector<records::Contention> all = by_repetitions(trials);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].marked()) out.push_back(i);
  return out;
}

TEST(Contention, MarksWhatIsSlowerThanItsRepetitions) {
  const std::vector<std::pair<const char*, double>> trials = {
      {"a", 1.0}, {"a", 1.02}, {"a", 2.1}, {"b", 3.0}, {"b", 3.03}, {"b", 4.5}, {"c", 9.0}, {"c", 9.1}};
  EXPECT_EQ(slowed(trials), (std::vector<size_t>{2, 5}));
  const std::vector<records::Contention> c = by_repetitions(trials);
  EXPECT_DOUBLE_EQ(c[2].slower, 2.1);
  EXPECT_DOUBLE_EQ(c[5].slower, 1.5);
  EXPECT_EQ(c[0].slower, 1);
  EXPECT_EQ(records::words_of(c[2]), "contended: 2.1 times the time of its fastest repetition");

  const std::vector<size_t> nobody;
  EXPECT_EQ(slowed({{"a", 1.0}, {"a", 1.02}, {"a", 1.12}, {"b", 1.0}, {"b", 1.01}, {"c", 1.0}, {"c", 1.0}}),
            nobody)
      << "12 % are little";
  EXPECT_EQ(slowed({{"a", 1.0}, {"a", 2.1}}), nobody) << "too few repetitions show how much is usual";
  EXPECT_EQ(slowed({{"a", 1.0}, {"a", 1.9}, {"a", 2.0}, {"a", 2.1}, {"b", 1.0}, {"b", 2.0}, {"b", 2.2}}),
            nobody)
      << "busy throughout";
  EXPECT_EQ(slowed({{"", 1.0}, {"", 1.0}, {"", 1.0}, {"", 1.0}, {"", 1.0}, {"", 2.0}, {"a", 1.0}}), nobody)
      << "no repetitions of one experiment";
}

// A contended run says nothing of how far repetitions differ, and its own step time is known only to what
// slowed it.
TEST(Contention, WhatWasSlowedIsNoMeasureOfScatter) {
  std::vector<records::RunRecord> runs(6);
  const double steps[] = {1.0, 1.02, 2.0, 0.99, 1.01, 5.0};
  std::vector<const records::RunRecord*> all;
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].run_class = records::RunClass::ok;
    runs[i].step_s.median = steps[i];
    all.push_back(&runs[i]);
  }
  runs[2].contention.slower = 2;
  runs[5].contention.scattered = true;
  const RunToRun r = records::run_to_run_of(all, Statistic::median);
  EXPECT_EQ(r.df, 3);
  EXPECT_LT(r.sigma, 0.025);
  EXPECT_NEAR(records::step_error(runs[2], Statistic::median), std::log(2.0), 0.1);
  EXPECT_EQ(records::step_error(runs[0], Statistic::median),
            own_error({}, runs[0].step_s, Statistic::median));
}

class RepeatsTest : public SweepTest {
 protected:
  SweepOutcome run_all(const SweepSpec& s) {
    whole_ = expand(s);
    const Matrix part = whole_;
    return run_with_repeats(whole_, part, s, [&](const Matrix& m) {
      SweepOptions o = options();
      o.whole = &whole_;
      return run_sweep(m, s, o, *local_launcher());
    });
  }
  Matrix whole_;
};

TEST_F(RepeatsTest, AContendedTrialIsRunOnceMoreAndBothAreKept) {
  const SweepSpec s = sweep("axes: {gpus: [1], workers: [0, 1, 2], micro_batch: [1, 2]}");
  const Trial disturbed = expand(s).trials[2];
  ::setenv("FAKE_CONTENDED", disturbed.id.c_str(), 1);
  const SweepOutcome o = run_all(s);
  ASSERT_EQ(o.runs.size(), 7u);
  EXPECT_EQ(o.started, 7);
  EXPECT_TRUE(o.complete());
  const records::RunRecord &first = o.runs[2], &again = o.runs[6];
  EXPECT_EQ(first.run_class, records::RunClass::ok) << "a mark is no class";
  EXPECT_TRUE(first.contention.marked());
  EXPECT_EQ(again.repeats, disturbed.id);
  EXPECT_NE(again.id, disturbed.id);
  EXPECT_EQ(records::experiment_of(again.spec), records::experiment_of(first.spec));
  EXPECT_FALSE(again.contention.marked());
  EXPECT_EQ(first.attempt, 1) << "the disturbed run was overwritten";
  EXPECT_EQ(whole_.trials.size(), 7u);
  EXPECT_EQ(records::load_runs(scratch_ / "results").size(), 7u);
  SQLite::Database db((scratch_ / "results" / "index.sqlite").string(), SQLite::OPEN_READONLY);
  EXPECT_EQ(db.execAndGet("SELECT id FROM runs WHERE contended = 1").getString(), disturbed.id);
  EXPECT_EQ(db.execAndGet("SELECT repeats FROM runs WHERE id = '" + again.id + "'").getString(),
            disturbed.id);
  const std::string table = summary_table(whole_, o);
  EXPECT_NE(table.find("contended: its steps scatter by"), std::string::npos) << table;
  EXPECT_NE(table.find("repeats " + disturbed.id), std::string::npos) << table;
  EXPECT_NE(table.find("1 contended"), std::string::npos) << table;

  // A second sweep has nothing to do and loses nothing.
  const SweepOutcome twice = run_all(s);
  EXPECT_EQ(twice.started, 0);
  EXPECT_EQ(twice.runs.size(), 7u);
  EXPECT_EQ(starts().size(), 7u);
}

TEST_F(RepeatsTest, HowOftenIsTheSweepFilesChoice) {
  const std::string axes = "axes: {gpus: [1], workers: [0, 1, 2], micro_batch: [1, 2, 4]}\n";
  const Trial t = expand(sweep(axes)).trials[4];
  const std::string again = trial_id(t.spec, 0, 1), once_more = trial_id(t.spec, 0, 2);
  ::setenv("FAKE_CONTENDED", (t.id + " " + again + " " + once_more).c_str(), 1);
  EXPECT_EQ(run_all(sweep(axes + "repeat_contended: 0")).runs.size(), 9u);
  EXPECT_EQ(run_all(sweep(axes)).runs.size(), 10u);
  EXPECT_EQ(run_all(sweep(axes + "repeat_contended: 2")).runs.size(), 11u) << "the repeat was contended too";
  for (const auto& [id, n] : starts()) EXPECT_EQ(n, 1) << id;
  EXPECT_EQ(sweep(axes + "repeat_contended: 3").repeat_contended, 3);
  EXPECT_THROW(sweep(axes + "repeat_contended: -1"), std::exception);
}

}  // namespace
}  // namespace isobar::sweep
