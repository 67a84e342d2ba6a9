// A disk that takes longer than run.hang_timeout does not end a run, and does not hide a rank that is really
// gone. Runs the real command over slow_disk.cpp.
#include <csignal>

#include "model/data/synthetic/synth.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

constexpr double kTimeout_s = 2;
constexpr const char* kTimeout = "run.hang_timeout=2";
// Time to start and end processes on a busy machine, and for mpiexec to end leftovers.
constexpr double kSlack_s = kSanitized ? 100 : 20;

/// `train` with rules of slow_disk.cpp; `mark` appears once a rule applies.
Words over_slow_disk(const std::string& rules, const std::string& mark, const Words& train) {
  Words words = {"env", "LD_PRELOAD=" + preload("slow_disk"), "ISOBAR_SLOW_DISK=" + rules,
                 "ISOBAR_SLOW_MARK=" + mark};
  words.insert(words.end(), train.begin(), train.end());
  return words;
}

Words small(const std::string& out, const Words& more = {}) {
  Words set = {"run.threads=1", "train.steps=6", "train.checkpoint_every=3", kTimeout, "run.out=" + out};
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

bool appears(const std::string& file, double limit_s = 60) {
  const double begun = seconds_now();
  while (seconds_now() - begun < limit_s) {
    if (fs::exists(file)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void expect_ended_well(const Ended& e, const std::string& out, double at_least_s) {
  EXPECT_EQ(e.code, 0) << e.text;
  EXPECT_GT(e.seconds, at_least_s) << "the disk was not slow: nothing is tested";
  const WrittenRun r = read_run(out);
  EXPECT_EQ(r.end["status"], "ok") << e.text;
  EXPECT_TRUE(fs::exists(out + "/checkpoints/step-00000006/state.json"));
}

TEST(SlowDisk, ACheckpointMayTakeLongerThanTheTimeout) {
  for (const char* ranks : {"1", "4"}) {
    const Folder dir;
    const std::string out = dir / "run";
    // With several ranks the last one is slow and the others wait.
    const std::string whose = ranks[0] == '1' ? "*" : "3";
    const Ended e = Child(over_slow_disk("fsync checkpoints 6 1 " + whose, dir / "mark",
                                         train_words(tiny(), small(out), {"--ranks", ranks})))
                        .wait();
    expect_ended_well(e, out, 6);
    EXPECT_HAS(e.text, "has been writing a checkpoint for");
    EXPECT_HAS(e.text, "the run waits for it");
  }
}

TEST(SlowDisk, SoMayStartingReadingValidationAndResults) {
  const Folder dir;
  const std::string out = dir / "run";
  data::make_synthetic(dir / "data", {.train_years = 1,
                                      .valid_years = 1,
                                      .test_years = 0,
                                      .samples_per_year = 40,
                                      .channels = 4,
                                      .height = 32,
                                      .width = 64});
  const Words data = {"data.train=" + (dir / "data/train"),
                      "data.valid=" + (dir / "data/valid"),
                      "data.means=" + (dir / "data/stats/global_means.npy"),
                      "data.stds=" + (dir / "data/stats/global_stds.npy"),
                      "train.valid_every=2",
                      "data.workers=0"};
  // Slow: opening data on one rank, training samples on another, validation samples, run_start, and a step
  // that rank 0 logs.
  const Ended e =
      Child(over_slow_disk("open data/train 5 1 1; read data/train 5 1 0; read data/valid 5 1 1; fsync "
                           "result.jsonl 5 1 0; write result.jsonl 5 2 0",
                           dir / "mark", train_words(tiny(), small(out, data), {"--ranks", "2"})))
          .wait();
  expect_ended_well(e, out, 20);
}

TEST(SlowDisk, SoMayResuming) {
  const Folder dir;
  const std::string out = dir / "run";
  Words half = small(out);
  half.emplace_back("train.steps=3");
  ASSERT_EQ(train_command(half, {"--ranks", "2"}).code, 0);
  const Ended e =
      Child(over_slow_disk("read model.safetensors 6 1 1; open optimizer.safetensors 6 1 0", dir / "mark",
                           train_words(tiny(), small(out), {"--ranks", "2", "--resume", out})))
          .wait();
  expect_ended_well(e, out, 6);
}

TEST(SlowDisk, ARankThatStopsMeanwhileStillEndsTheRun) {
  for (const int stopped : {0, 1}) {  // the waiting rank, the writing rank
    const Folder dir;
    const std::string out = dir / "run";
    Child child(over_slow_disk("fsync checkpoints 600 1 1", dir / "mark",
                               train_words(tiny(), small(out), {"--ranks", "2"})));
    ASSERT_TRUE(appears(dir / "mark")) << child.wait(0).text;
    const auto ranks = ranks_of(child.pid());
    ASSERT_EQ(ranks.size(), 2u);
    std::this_thread::sleep_for(std::chrono::milliseconds(3000));  // waiting alone does not end the run
    ASSERT_FALSE(child.over());
    ::kill(ranks[stopped], SIGSTOP);
    const double begun = seconds_now();
    const Ended e = child.wait();
    EXPECT_LT(seconds_now() - begun, kTimeout_s + kSlack_s);
    EXPECT_EQ(e.code, 1) << e.text;
    EXPECT_HAS(e.text, "a rank no longer answers");
    EXPECT_EQ(read_run(out).end["class"], "hang");
    for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank)) << "a rank outlives its run";
  }
}

TEST(SlowDisk, ARankThatIsKilledMeanwhileEndsTheRun) {
  for (const int killed : {0, 1}) {
    const Folder dir;
    const std::string out = dir / "run";
    Child child(over_slow_disk("fsync checkpoints 600 1 1", dir / "mark",
                               train_words(tiny(), small(out), {"--ranks", "2"})));
    ASSERT_TRUE(appears(dir / "mark")) << child.wait(0).text;
    const auto ranks = ranks_of(child.pid());
    ASSERT_EQ(ranks.size(), 2u);
    ::kill(ranks[killed], SIGKILL);
    const double begun = seconds_now();
    const Ended e = child.wait();
    EXPECT_LT(seconds_now() - begun, kSlack_s);
    EXPECT_EQ(e.code, 137) << e.text;
    const WrittenRun r = read_run(out);
    EXPECT_EQ(r.end["class"], "crash") << e.text;
    EXPECT_HAS(r.end.value("message", ""), "SIGKILL");
    for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank)) << "a rank outlives its run";
  }
}

TEST(SlowDisk, AnOpThatNeverEndsIsFoundAndItsRankNamed) {
  const Folder dir;
  const std::string out = dir / "run";
  Child child(
      over_slow_disk("sum sum 0 1 1", dir / "mark", train_words(tiny(), small(out), {"--ranks", "2"})));
  ASSERT_TRUE(appears(dir / "mark")) << child.wait(0).text;
  const auto ranks = ranks_of(child.pid());
  const double begun = seconds_now();
  const Ended e = child.wait();
  EXPECT_LT(seconds_now() - begun, kTimeout_s + kSlack_s);
  EXPECT_EQ(e.code, 1) << e.text;
  const WrittenRun r = read_run(out);
  EXPECT_EQ(r.end["class"], "hang") << e.text;
  EXPECT_HAS(e.text, "rank 1 made no progress for 2 s in ");
  EXPECT_EQ(r.end["rank"], 1) << e.text;
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank)) << "a rank outlives its run";
}

}  // namespace
}  // namespace isobar::engine
