// A run directory that is used again: nothing of one training is in another's way, whatever the second one
// is, and whenever the first one was killed.
#include <gtest/gtest.h>

#include "tests/engine/command.h"

namespace isobar::engine {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

const Words kSix = {"train.steps=6", "train.checkpoint_every=2", "run.threads=1"};

Ended train_in(const std::string& out, Words set, const Words& more = {}) {
  Words all = kSix;
  all.insert(all.end(), set.begin(), set.end());
  all.push_back("run.out=" + out);
  return train_command(all, more);
}

/// Every file below `dir` but the lock, with what is in it.
std::map<std::string, std::string> contents(const std::string& dir) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    if (entry.is_regular_file() && entry.path().filename() != "lock")
      out[fs::relative(entry.path(), dir).string()] = text_of(entry.path());
  return out;
}

void expect_refused(const Ended& e, const std::string& why, const std::string& mend) {
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_HAS(e.text, why);
  EXPECT_HAS(e.text, mend);
  size_t lines = 0;
  for (size_t at = e.text.find("isobar: "); at != std::string::npos; at = e.text.find("isobar: ", at + 1))
    ++lines;
  EXPECT_EQ(lines, 1u) << e.text;
}

TEST(RunDirs, ASecondTrainingIsRefusedAndLeavesTheFirstAsItWas) {
  const Folder dir;
  const std::string out = dir / "run";
  ASSERT_EQ(train_in(out, {}).code, 0);
  const auto before = contents(out);
  ASSERT_TRUE(before.contains("checkpoints/step-00000006/model.safetensors"));
  for (const char* other : {"train.seed=1", "train.lr=1e-2", "net.depth=3", "train.log_every=1"})
    for (const char* ranks : {"1", "2"})
      expect_refused(train_in(out, {other}, {"--ranks", ranks}), "holds checkpoints of a training",
                     "--resume " + out);
  EXPECT_EQ(contents(out), before);

  const std::string unkept = dir / "unkept";  // steps without checkpoints are results, too
  ASSERT_EQ(train_in(unkept, {"train.checkpoint_every=0"}).code, 0);
  expect_refused(train_in(unkept, {}), "holds the results of a training", "a run.out of its own");
}

TEST(RunDirs, ABranchFromAnEarlierCheckpointNeedsItsOwn) {
  const Folder dir;
  const std::string out = dir / "run", second = out + "/checkpoints/step-00000002";
  ASSERT_EQ(train_in(out, {}).code, 0);
  const auto before = contents(out);
  expect_refused(train_in(out, {"train.lr=1e-2"}, {"--resume", second}),
                 "is not the last checkpoint of run.out", "a run.out of its own");
  expect_refused(train_in(out, {}, {"--resume", second, "--ranks", "2"}), "step-0000000", "--resume " + out);
  EXPECT_EQ(contents(out), before);

  ASSERT_EQ(train_in(dir / "branch", {"train.lr=1e-2"}, {"--resume", second}).code, 0);
  const auto branch = contents(dir / "branch");
  for (const char* step : {"4", "6"}) {
    const std::string model = std::string("checkpoints/step-0000000") + step + "/model.safetensors";
    ASSERT_TRUE(branch.contains(model));
    EXPECT_NE(branch.at(model), before.at(model)) << "the other rate changed nothing: nothing is tested";
  }
  EXPECT_EQ(contents(out), before);
  // From one run into another's directory.
  expect_refused(train_in(dir / "branch", {"train.steps=8"}, {"--resume", out}),
                 "holds checkpoints of a training", "a run.out of its own");
}

TEST(RunDirs, WhatGotToNoStepLeavesItsDirectoryFree) {
  const Folder dir;
  const std::string out = dir / "run";
  EXPECT_EQ(train_in(out, {"data.train=" + (dir / "nowhere")}).code, 2);
  EXPECT_EQ(train_in(out, {}).code, 0);
  EXPECT_EQ(read_run(out).losses.size(), 6u);
}

TEST(RunDirs, OneTrainingAtATime) {
  const Folder dir;
  const std::string out = dir / "run";
  Child first(train_words(tiny(), {"train.steps=1000000", "run.threads=1", "run.out=" + out}));
  ASSERT_TRUE(reached(first, out, 3)) << first.wait(0).text;
  const Ended second = train_in(out, {});
  expect_refused(second, "is in use by another training", "stop it");
  EXPECT_LT(second.seconds, 60);
  EXPECT_FALSE(first.over());
  ::kill(first.pid(), SIGKILL);
  first.wait();
  // Free by itself after a kill; what was trained is still not to be mixed with.
  expect_refused(train_in(out, {}), "holds the results of a training", "a run.out of its own");
}

TEST(RunDirs, ATraceOfTheAttemptBeforeIsNotTheNewOnes) {
  const Folder dir;
  const std::string out = dir / "run";
  ASSERT_EQ(train_in(out, {}, {"--trace", out + "/trace.json"}).code, 0);
  const std::string trace = text_of(out + "/trace.json");
  ASSERT_EQ(train_in(out, {"train.steps=8"}, {"--resume", out}).code, 0);
  EXPECT_FALSE(fs::exists(out + "/trace.json")) << "a report would show it as that of the last attempt";
  EXPECT_EQ(text_of(out + "/trace-before-6.json"), trace);
}

// A checkpoint event is a checkpoint that this run has written, with the seconds that it took.
TEST(RunDirs, EventsSayWhatHappened) {
  const Folder dir;
  const std::string out = dir / "run";
  ASSERT_EQ(train_in(out, {"train.steps=4"}).code, 0);
  ASSERT_EQ(train_in(out, {}, {"--resume", out}).code, 0);
  ASSERT_EQ(train_in(out, {}, {"--resume", out}).code, 0);  // at its end: nothing happens
  std::vector<std::string> said;
  for (const json& e : read_run(out).events) {
    const std::string event = e["event"];
    said.push_back(event == "step" || event == "checkpoint" || event == "resume" ? event + e["step"].dump()
                                                                                 : event);
    if (event == "checkpoint") {
      EXPECT_GT(e["seconds"].get<double>(), 1e-4);
    }
  }
  EXPECT_EQ(said, (Words{"run_start", "set_up", "step1", "step2", "checkpoint2", "step3", "step4",
                         "checkpoint4", "ranks", "run_end", "run_start", "resume4", "set_up", "step5",
                         "step6", "checkpoint6", "run_end"}));
}

// Killed between its last checkpoint and its last word: the next start says it, and trains nothing.
TEST(RunDirs, AnEndThatWasNotSaidIsSaid) {
  const Folder dir;
  const std::string out = dir / "run";
  ASSERT_EQ(train_in(out, {}).code, 0);
  std::string events = text_of(out + "/result.jsonl");
  events.erase(events.rfind('\n', events.size() - 2) + 1);  // its last line: run_end
  std::ofstream(out + "/result.jsonl") << events;
  ASSERT_EQ(train_in(out, {}, {"--resume", out}).code, 0);
  const WrittenRun r = read_run(out);
  EXPECT_EQ(r.end["status"], "ok");
  EXPECT_EQ(r.losses.size(), 6u);
  EXPECT_EQ(std::count_if(r.events.begin(), r.events.end(),
                          [](const json& e) { return e["event"] == "run_start"; }),
            1);
}

}  // namespace
}  // namespace isobar::engine
