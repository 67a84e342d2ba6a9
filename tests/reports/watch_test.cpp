// `isobar watch`: a sweep's state from files alone.
#include "reports/live/watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "model/base/error.h"
#include "model/records/files/result_file.h"
#include "reports/live/watch_run.h"
#include "reports/style/terminal.h"

#include "tests/reports/fixture.h"

namespace isobar::report {
namespace {

TEST(Watch, NamesContendedTrialsAndTheFastestByTheStatisticOfItsSteps) {
  TempDir dir;
  MadeUpResults made(dir.path);
  nlohmann::json matrix = {{"schema", 1}, {"trials", nlohmann::json::array()}};
  for (int i = 0; i < 8; ++i) {
    const std::string id = "trial" + std::to_string(i);
    made.write_timed(id, MadeUpResults::spec(1, "none", i), 0.02 + 0.01 * i, i == 5 ? 0.5 : 0.01);
    matrix["trials"].push_back(
        {{"id", id}, {"ranks", 1}, {"repetition", 0}, {"axes", {{"data.workers", i}}}});
  }
  write_atomically(dir.path / "sweep.json", matrix.dump());
  SweepWatch watch(dir.path);
  watch.refresh();
  for (const WatchedTrial& t : watch.state().trials) {
    EXPECT_EQ(t.state, "ok");
    EXPECT_EQ(t.contention.marked(), t.id == "trial5") << t.id;
  }
  ASSERT_NE(watch.state().fastest(), nullptr);
  EXPECT_EQ(watch.state().fastest()->id, "trial0");
  const std::string text = frame(watch.state(), {.width = 120, .rows = 40});
  EXPECT_NE(text.find("(1 contended)"), std::string::npos) << text;
  EXPECT_NE(text.find(title_of(kStatistic)), std::string::npos) << text;
}

// A running trial that takes twice as long as was predicted, for the loader.
TEST(Watch, ARunningTrialIsAdvised) {
  TempDir dir;
  write_atomically(dir.path / "sweep.json", R"({"trials": [{"id": "t1", "name": "slow", "ranks": 1}]})");
  const auto trial = dir.path / "trials/t1";
  std::filesystem::create_directories(trial);
  write_atomically(trial / "trial.json", "{}");
  SlowForItsLoader slow(trial);
  SweepWatch watch(dir.path);
  slow.steps(20);
  watch.refresh();
  EXPECT_EQ(watch.state().trials[0].advice, "");
  slow.steps(20);
  watch.refresh();
  EXPECT_EQ(watch.state().trials[0].advice, SlowForItsLoader::kAdvice);
  EXPECT_NE(frame(watch.state(), {.width = 220, .rows = 40}).find("the loader, 100 ms"), std::string::npos);
}

class RunWatched : public ::testing::Test {
 protected:
  void write(const std::vector<records::Record>& records) {
    for (const records::Record& r : records) append_line(dir_.path / "result.jsonl", records::line_of(r));
  }
  static records::StepRecord step(int64_t n, double loss, double seconds = 0.1) {
    records::StepRecord r{.step = n, .seconds = seconds, .samples_per_s = 8 / seconds};
    r.loss = loss;
    return r;
  }
  static records::StartRecord start() {
    records::StartRecord r;
    r.spec = {{"net", {{"kind", "vit"}}}, {"train", {{"steps", 100}, {"global_batch", 8}}}};
    r.ranks = 2;
    return r;
  }
  TempDir dir_;
};

TEST_F(RunWatched, FollowsWhatIsWrittenAndSaysWhatIsLeft) {
  EXPECT_THROW(RunWatch{dir_.path}, ConfigError);
  write({start(), step(1, 5), step(2, 4)});
  RunWatch watch(dir_.path);
  watch.refresh();
  EXPECT_EQ(watch.state().steps.size(), 2u);
  EXPECT_NEAR(watch.state().left_s(), 9.8, 1e-9);
  // An incomplete line is not a record yet
  const std::string whole = records::line_of(step(3, 3)) + "\n";
  std::ofstream(dir_.path / "result.jsonl", std::ios::app) << whole.substr(0, 20);
  watch.refresh();
  EXPECT_EQ(watch.state().steps.size(), 2u);
  std::ofstream(dir_.path / "result.jsonl", std::ios::app) << whole.substr(20);
  records::ValidRecord valid{.step = 3};
  valid.loss = 3.5;
  write({valid});
  watch.refresh();
  ASSERT_EQ(watch.state().steps.size(), 3u);
  std::string text = frame(watch.state(), {.width = 90, .rows = 24});
  for (const std::string part :
       {"step 3 of 100, about 10 s left", "vit, 2 ranks, global batch 8, fp32", "100.0 ms a step, 80.0",
        "loss 3.000 (lowest 3.000 at step 3), validation 3.500 (x)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  // Resumed from step 2: repeated steps count once
  records::StartRecord again = start();
  again.resumed = true;
  records::ResumeRecord from;
  from.step = 2;
  records::EndRecord end;
  end.status = "failed", end.failure = "numeric", end.message = "loss is nan";
  write({again, from, step(3, 2.5), step(4, 2), end});
  watch.refresh();
  EXPECT_EQ(watch.state().steps.size(), 4u);
  EXPECT_EQ(*watch.state().steps[2].loss, 2.5);
  EXPECT_TRUE(watch.state().valid.empty());
  text = frame(watch.state(), {.width = 90, .rows = 24});
  EXPECT_NE(text.find("FAILED (numeric): loss is nan"), std::string::npos) << text;
}

TEST(Curve, PutsEachPointInItsCell) {
  // One point in each corner: the highest value in the first line, the lowest in the last, the first x at the
  // left
  const auto lines = curve({{{{1, 2}, {100, 1}}, false}}, 41, 6);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_NE(lines[0].find("\u2801"), std::string::npos) << lines[0];
  EXPECT_NE(lines[4].find("\u2880"), std::string::npos) << lines[4];
  EXPECT_EQ(columns_of(lines[4]), 41u);
  EXPECT_EQ(columns_of(lines[0]), 12u);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(lines[i].find("\xe2\xa0"), std::string::npos);
  EXPECT_NE(lines[5].find("100"), std::string::npos);
  // A log axis over three decades: the middle value is in the middle line
  const auto log = curve({{{{1, 1000}, {2, 31.6}, {3, 1}}, true}}, 41, 6);
  EXPECT_NE(log[2].find('x'), std::string::npos) << log[2];
  EXPECT_TRUE(curve({{{{1, NAN}}, false}}, 72, 10).empty());
  EXPECT_TRUE(curve({}, 72, 10).empty());
}

}  // namespace
}  // namespace isobar::report
