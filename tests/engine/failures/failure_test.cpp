// Failing runs end as a whole and quickly, with the failing rank's message and the exit code that scripts and
// sweeps rely on.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>

#include "model/data/synthetic/synth.h"
#include "tests/engine/command.h"

namespace isobar::engine {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

int count_of(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Failure, AWrongConfigurationExitsWith2AndOneLine) {
  const Folder dir;
  struct Case {
    Words set, more;
    const char *key, *mend;
  };
  for (const Case& c :
       {Case{{"net.patch_size=7"}, {}, "'net.patch_size'", "the nearest that do are"},
        Case{{"train.global_bach=8"}, {}, "'train.global_bach'", "did you mean"},
        Case{{"train.global_batch=7"}, {"--ranks", "2"}, "'train.global_batch'", "use a multiple"},
        Case{{"layout.tp=3"}, {"--ranks", "3"}, "'layout.tp'", "the nearest that can be run are 2 and 4"},
        Case{{"policy.schedule=zb-h1"}, {}, "'policy.schedule'", "set it to 1f1b"},
        Case{{"policy.zero=4"}, {}, "'policy.zero'", "use 0 to 3"},
        Case{{"data.train=" + (dir / "nowhere")}, {}, "nowhere", "->"},
        Case{{}, {"--resume", dir / "nothing"}, "--resume", "holds no checkpoint"}}) {
    SCOPED_TRACE(c.key);
    const Ended e = train_command(c.set, c.more);
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_HAS(e.text, c.key);
    EXPECT_HAS(e.text, c.mend);
    EXPECT_EQ(count_of(e.text, "isobar: "), 1) << e.text;
    EXPECT_LT(e.seconds, kQuickly);
  }
  for (const Words& words :
       {Words{command(), "train"}, Words{command(), "trane", tiny()},
        Words{command(), "train", tiny(), "--rank", "2"}, Words{command(), "train", "absent.yaml"}})
    EXPECT_EQ(Child(words).wait().code, 2) << testing::PrintToString(words);
}

TEST(Failure, ALossThatIsNoNumberExitsWith3) {
  for (const char* ranks : {"1", "2"}) {
    const Folder dir;
    const Ended e =
        train_command({"train.lr=1e30", "run.threads=1", "run.out=" + (dir / "run")}, {"--ranks", ranks});
    EXPECT_EQ(e.code, 3) << e.text;
    EXPECT_HAS(e.text, "lower train.lr or look at the data");
    EXPECT_LT(e.seconds, kQuickly);
    const WrittenRun r = read_run(dir / "run");
    EXPECT_EQ(r.end["status"], "failed");
    EXPECT_EQ(r.end["class"], "numeric");
  }
}

TEST(Failure, MoreMemoryThanTheHostHasExitsWith4) {
  const Folder dir;
  const Ended e = train_command({"net.embed_dim=65536", "net.depth=1000", "run.out=" + (dir / "run")});
  EXPECT_EQ(e.code, 4) << e.text;
  EXPECT_HAS(e.text, "out of memory");
  EXPECT_EQ(read_run(dir / "run").end["class"], "oom_host");
}

TEST(Failure, ARankThatIsKilledEndsTheRun) {
  const Folder dir;
  Child child(train_words(tiny(), {"train.steps=100000", "run.out=" + (dir / "run"), "run.threads=1"},
                          {"--ranks", "2"}));
  ASSERT_TRUE(reached(child, dir / "run", 30)) << child.wait(0).text;
  const auto ranks = ranks_of(child.pid());
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGKILL);
  const double killed = seconds_now();
  const Ended e = child.wait();
  EXPECT_LT(seconds_now() - killed, kQuickly);
  EXPECT_NE(e.code, 0);
  EXPECT_NE(e.code, -1) << "hung";
  EXPECT_HAS(e.text, "signal 9");
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank)) << "a rank outlives its run";
}

TEST(Failure, ARankWithoutItsDataEndsTheRunWithItsOwnMessage) {
  const Folder dir;
  data::make_synthetic(dir / "data", {.train_years = 1,
                                      .valid_years = 0,
                                      .test_years = 0,
                                      .samples_per_year = 20,
                                      .channels = 4,
                                      .height = 32,
                                      .width = 64});
  Words words = mpiexec(1);
  const auto rank = [&](const std::string& data) {
    Words w =
        train_words(tiny(), {"layout.dp=2", "run.threads=1", "train.steps=100000", "data.train=" + data});
    words.insert(words.end(), w.begin(), w.end());
  };
  rank(dir / "data/train");
  words.insert(words.end(), {":", "-n", "1"});
  rank(dir / "lost/train");
  const Ended e = Child(words).wait();
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_HAS(e.text, "lost/train");
  EXPECT_LT(e.seconds, kQuickly);
}

TEST(Failure, NaNInOneRanksDataEndsTheRunWithFileStepAndChannel) {
  const Folder dir;
  data::make_synthetic(dir / "data", {.train_years = 1,
                                      .valid_years = 0,
                                      .test_years = 0,
                                      .samples_per_year = 40,
                                      .channels = 4,
                                      .height = 32,
                                      .width = 64});
  const std::string file = dir / "data/train/2015.h5";
  ASSERT_TRUE(fs::exists(file));
  haddr_t at = 0;
  {
    const hid_t f = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
                d = H5Dopen2(f, "fields", H5P_DEFAULT);
    at = H5Dget_offset(d);
    H5Dclose(d);
    H5Fclose(f);
  }
  ASSERT_NE(at, HADDR_UNDEF);
  const int64_t step = 17, channel = 2;
  const float nan = std::nanf("");
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<int64_t>(at) + ((step * 4 + channel) * 32 * 64 + 77) * 4);
  out.write(reinterpret_cast<const char*>(&nan), 4);
  out.close();
  for (const char* workers : {"0", "2"}) {
    SCOPED_TRACE(workers);
    const std::string run = dir / (std::string("run") + workers);
    const Ended e = train_command(
        {"data.train=" + (dir / "data/train"), "data.means=" + (dir / "data/stats/global_means.npy"),
         "data.stds=" + (dir / "data/stats/global_stds.npy"), "run.threads=1",
         std::string("data.workers=") + workers, "train.steps=100000", "run.out=" + run},
        {"--ranks", "2"});
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_HAS(e.text, "2015.h5");
    EXPECT_HAS(e.text, "17");
    EXPECT_HAS(e.text, "NaN");
    EXPECT_LT(e.seconds, kQuickly);
    const WrittenRun r = read_run(run);
    EXPECT_EQ(r.end["status"], "failed");
    EXPECT_EQ(r.end["class"], "bad_config");
    EXPECT_HAS(r.end["message"].get<std::string>(), "2015.h5");
  }
}

TEST(Failure, ARankThatStopsIsNoticedByTheOthers) {
  const Folder dir;
  Child child(train_words(
      tiny(), {"train.steps=100000", "run.out=" + (dir / "run"), "run.threads=1", "run.hang_timeout=10"},
      {"--ranks", "2"}));
  ASSERT_TRUE(reached(child, dir / "run", 30)) << child.wait(0).text;
  const auto ranks = ranks_of(child.pid());
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGSTOP);
  const double stopped = seconds_now();
  const Ended e = child.wait();
  EXPECT_LT(seconds_now() - stopped, 10 + kQuickly);
  EXPECT_EQ(e.code, 1) << e.text;
  EXPECT_HAS(e.text, "made no progress for 10 s");
  const WrittenRun r = read_run(dir / "run");
  EXPECT_EQ(r.end["class"], "hang");
  for (const pid_t rank : ranks) {
    EXPECT_TRUE(gone(rank)) << "a rank outlives its run";
  }
}

}  // namespace
}  // namespace isobar::engine
