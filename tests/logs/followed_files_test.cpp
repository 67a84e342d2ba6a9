// Tables and event files beside a training's output, followed while they grow.
#include "bench/logs/followed_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <variant>

#include "bench/logs/output_reader.h"
#include "model/base/error.h"
#include "model/records/files/event_file.h"

namespace isobar::logs {
namespace {

namespace fs = std::filesystem;

class Followed : public ::testing::Test {
 protected:
  Followed() : dir_(fs::temp_directory_path() / ("followed." + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~Followed() override { fs::remove_all(dir_); }
  void append(const std::string& name, const std::string& bytes) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary | std::ios::app) << bytes;
  }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  fs::path dir_;
};

std::vector<records::StepRecord> steps_of(OutputReader& r) {
  std::vector<records::StepRecord> out;
  for (const records::Record& record : r.take(0))
    if (const auto* s = std::get_if<records::StepRecord>(&record)) out.push_back(*s);
  return out;
}

TEST_F(Followed, TablesOfOtherProgramsAreReadByTheirNames) {
  append("a.csv", "\xEF\xBB\xBFStep, note, Loss, step_time_ms\r\n1, \"a, b\", 2.5, 250\r\n2, c, 2.25, 250");
  OutputReader to({.reads = "csv:{out}/a.csv", .untimed = true});
  FollowedFiles files("csv:{out}/a.csv", dir_.string(), 1);
  files.end(to);
  to.end();
  const auto s = steps_of(to);
  ASSERT_EQ(s.size(), 2u) << "the last has no end of line";
  EXPECT_EQ(*s[0].loss, 2.5);
  EXPECT_EQ(s[1].seconds, 0.25);
  // Keras: a row an epoch
  append("k.csv", "epoch,accuracy,loss,val_accuracy,val_loss\n0,.5,2.5,.5,2.6\n1,.5,2.25,.5,2.5\n");
  OutputReader keras({.reads = "csv:{out}/k.csv", .untimed = true});
  FollowedFiles table("csv:{out}/k.csv", dir_.string(), 1);
  table.end(keras);
  keras.end();
  EXPECT_EQ(steps_of(keras).size(), 2u);
}

// Lightning's CSVLogger writes its table anew when a column is added.
TEST_F(Followed, MetricsCsvGivesLossesAndValidations) {
  const std::string reads = "csv:{out}/logs";
  OutputReader to({.reads = reads, .untimed = true});
  FollowedFiles files(reads, dir_.string(), 1);
  files.read(to, 10);
  EXPECT_EQ(files.notes().size(), 1u);
  append("logs/version_0/metrics.csv", "epoch,step,train_loss\n0,4,0.5\n0,9,0.25\n");
  files.read(to, 12);
  fs::remove(path("logs/version_0/metrics.csv"));
  append("logs/version_0/metrics.csv",
         "epoch,step,train_loss,val_loss\n0,4,0.5,\n0,9,0.25,\n0,14,0.2,\n1,19,,0.125\n1,19,0.1,\n1,2");
  files.end(to);
  to.end();
  const auto s = steps_of(to);
  ASSERT_EQ(s.size(), 4u);
  EXPECT_EQ(s[2].step, 14);
  EXPECT_EQ(*s[2].loss, 0.2);
  EXPECT_EQ(s[3].epoch, 1);
  EXPECT_EQ(to.summary().valid->loss, 0.125);
  EXPECT_TRUE(files.notes().empty());
}

TEST_F(Followed, EventFilesGiveTimesOfTheirOwn) {
  append("old/events.out.tfevents.1.x", records::event_file_head(1) + records::event_record(1, 1, "loss", 9));
  fs::last_write_time(path("old/events.out.tfevents.1.x"),
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  const std::string reads = "tensorboard:" + dir_.string();
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  OutputReader to({.reads = reads, .batch = 32});
  FollowedFiles files(reads, "", now);
  std::string bytes = records::event_file_head(now);
  for (int i = 0; i < 5; ++i) {
    bytes += records::event_record(now + 0.25 * i, 10 * i, "lr-AdamW", 0.001);
    bytes += records::event_record(now + 0.25 * i, 10 * i, "train_loss", 1.0 / (1 + i));
    bytes += records::event_record(now + 0.25 * i, 10 * i, "epoch", 0);
  }
  bytes += records::event_record(now + 2, 40, "val_loss", 0.75);
  append("new/events.out.tfevents.2.x", bytes.substr(0, bytes.size() / 2));
  files.read(to, now);
  append("new/events.out.tfevents.2.x", bytes.substr(bytes.size() / 2) + "damaged and not a record");
  files.end(to);
  to.end();
  const auto s = steps_of(to);
  ASSERT_EQ(s.size(), 4u);
  EXPECT_EQ(s[3].step, 40);
  EXPECT_NEAR(s[3].seconds, 0.025, 1e-6);
  EXPECT_NEAR(*s[3].loss, 0.2, 1e-6);
  EXPECT_NEAR(*s[3].lr, 0.001, 1e-9);
  EXPECT_EQ(to.summary().valid->loss, 0.75);
  EXPECT_EQ(files.notes().size(), 1u) << "the damage";
}

TEST_F(Followed, LinesAreWholeAndALineWithoutEndIsCut) {
  FollowedText text(path("out"));
  std::vector<std::string> lines;
  const auto use = [&](const std::string& line, double) { lines.push_back(line); };
  EXPECT_FALSE(text.read(use));
  append("out", "one\ntw");
  EXPECT_TRUE(text.read(use));
  append("out", std::string("o\r\nthr\0ee", 9) + std::string(3 << 20, 'x') + "\r4\n\xff\xfe");
  text.end(use);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1], "two");
  EXPECT_EQ(lines[2].substr(0, 6), std::string("thr\0ee", 6));
  EXPECT_EQ(lines[2].size(), size_t{1} << 16);
  EXPECT_EQ(lines[3], "4");
  EXPECT_EQ(lines[4], "\xff\xfe");
  EXPECT_LT(text.last().size(), size_t{1} << 16);
}

TEST(WarmUp, IsTheFirstAndTheSlowOnesBehindIt) {
  EXPECT_EQ(warm_up({9}).steps, 0u);
  EXPECT_EQ(warm_up({9, 1}).steps, 1u);
  EXPECT_EQ(warm_up({1, 1, 1, 1}).steps, 1u);
  EXPECT_EQ(warm_up({9, 5, 2, 1, 1, 1, 1, 7, 1}).steps, 3u);
  EXPECT_EQ(warm_up({9, 5, 2, 1, 1, 1, 1, 7, 1}).text.find("the first 3 of 9 step times are left out"), 0u);
}

TEST_F(Followed, TryShowsReadersStepsAndWhatWasMissed) {
  std::string log = "a program\n";
  for (int i = 1; i <= 30; ++i)
    log += "INFO step " + std::to_string(i) + " loss 0.5 took " + (i < 3 ? "900" : "20") + " ms\n";
  append("run.log", log + "epoch 3 is a story\nstep 31 of another form: 12\n");
  const std::string said = tried_log(path("run.log"), {});
  for (const char* words : {"lines (30 lines)", "steps          30", "median of the steps", "20 ms",
                            "the first 2 of 30 step times", "not read       2 lines", "line 33: step 31 of"})
    EXPECT_NE(said.find(words), std::string::npos) << words << "\n" << said;
  append("none.log", "nothing of a training\n");
  EXPECT_THROW(tried_log(path("none.log"), {}), ConfigError);
}

TEST_F(Followed, TryTakesTheClockOfTheLineAndNoDateOfTheData) {
  const auto said = [&](const std::string& name, const std::string& before, const std::string& behind) {
    std::string log;
    for (int i = 1; i <= 5; ++i) {
      const std::string second = std::to_string(i), hour = "0" + std::to_string(i);
      log += before + (before.empty() ? "" : "0" + second + " ") + "step " + second + " loss 0.5" +
             (behind.empty() ? "" : behind + hour + ":00:00") + "\n";
    }
    append(name, log);
    return tried_log(path(name), {});
  };
  const std::string data = " init 2018-03-01T";
  EXPECT_NE(said("none.log", "", data).find("none is printed"), std::string::npos);
  EXPECT_NE(said("both.log", "[INFO] 2025-01-01 10:00:", data).find("step time      1000 ms"),
            std::string::npos);
}

}  // namespace
}  // namespace isobar::logs
