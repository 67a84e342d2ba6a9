// run.out: runs/{name}-{n} and --new: each start gets a directory of its own, --resume goes on where the run
// is, and a refused start leaves none.
#include <thread>

#include "tests/engine/command.h"

namespace isobar::cli {
namespace {

class RunNames : public testing::Test {
 protected:
  Ended start(const std::string& out, Words options = {}, Words set = {}) const {
    const Words usual = {"train.steps=2", "run.threads=1", "train.checkpoint_every=1",
                         "run.out=" + (dir / out)};
    set.insert(set.begin(), usual.begin(), usual.end());
    return train_command(set, options);
  }
  std::vector<std::string> runs() const {
    std::vector<std::string> all;
    if (fs::exists(dir / "runs"))
      for (const auto& e : fs::directory_iterator(dir / "runs")) all.push_back(e.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }
  int64_t steps_of(const std::string& run) const {
    return static_cast<int64_t>(read_run(dir / ("runs/" + run)).losses.size());
  }
  Folder dir;
};

TEST_F(RunNames, CountUpWhateverIsMissingBetween) {
  fs::create_directories(dir / "runs/exp-7");
  fs::create_directories(dir / "runs/exp-x");
  for (const Words& options : {Words{"--name", "exp"}, Words{"--name", "exp", "--ranks", "2"}}) {
    const Ended e = start("runs/{name}-{n}", options);
    ASSERT_EQ(e.code, 0) << e.text;
  }
  EXPECT_EQ(runs(), (std::vector<std::string>{"exp-7", "exp-8", "exp-9", "exp-x"}));
  EXPECT_EQ(steps_of("exp-9"), 2);
  const std::string file = fs::path(tiny()).stem();
  ASSERT_EQ(start("runs/{name}-{n}").code, 0);
  EXPECT_EQ(steps_of(file + "-1"), 2);
}

TEST_F(RunNames, AResumedRunGoesOnInItsDirectoryOrBeginsABranch) {
  ASSERT_EQ(start("runs/{n}").code, 0);
  Ended e = start("runs/{n}", {"--resume", dir / "runs/1/"}, {"train.steps=4"});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_EQ(runs(), std::vector<std::string>{"1"});
  EXPECT_EQ(steps_of("1"), 4);
  e = start("runs/{n}", {"--resume", dir / "runs/1/checkpoints/step-00000002", "--new"}, {"train.steps=3"});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_EQ(runs(), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(steps_of("1"), 4);
}

TEST_F(RunNames, NewRunsStandBesideTheOld) {
  for (int i = 0; i < 3; ++i) {
    const Ended e = start("runs/first", {"--new"});
    ASSERT_EQ(e.code, 0) << e.text;
  }
  EXPECT_EQ(runs(), (std::vector<std::string>{"first", "first-2", "first-3"}));
}

TEST_F(RunNames, StartsAtTheSameTimeGetDirectoriesOfTheirOwn) {
  std::vector<std::thread> all;
  std::vector<int> codes(4, -1);
  for (int& code : codes) all.emplace_back([&] { code = start("runs/{n}").code; });
  for (std::thread& t : all) t.join();
  EXPECT_EQ(codes, std::vector<int>(4, 0));
  EXPECT_EQ(runs(), (std::vector<std::string>{"1", "2", "3", "4"}));
}

TEST_F(RunNames, RanksOfALauncherAgree) {
  const Ended e = Child({"mpiexec", "--oversubscribe", "-n", "2", command(), "train", tiny(), "--set",
                         "train.steps=2", "--set", "run.threads=1", "--set", "run.out=" + (dir / "runs/{n}")})
                      .wait();
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_EQ(runs(), std::vector<std::string>{"1"});
  EXPECT_EQ(read_run(dir / "runs/1").start["ranks"], 2);
}

TEST_F(RunNames, WhatIsRefusedLeavesNoDirectory) {
  for (const auto& [out, option, set, said] :
       std::vector<std::array<std::string, 4>>{{"runs/{n}", "", "layout.tp=3", "tp"},
                                               {"runs/{n}", "", "data.train=nowhere", "nowhere"},
                                               {"runs/{n}/a", "", "train.seed=1", "in its last part"},
                                               {"runs/{n}-{n}", "", "train.seed=1", "one number"},
                                               {"runs/{n}", "--ranks=3", "train.seed=1", "global_batch"}}) {
    const Ended e = start(out, option.empty() ? Words{} : Words{option}, {set});
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find(said), std::string::npos) << said << ": " << e.text;
    EXPECT_TRUE(runs().empty()) << out << " " << set << ": " << runs().front();
  }
  EXPECT_EQ(train_command({"train.steps=2"}, {"--new"}).code, 2);
}

}  // namespace
}  // namespace isobar::cli
