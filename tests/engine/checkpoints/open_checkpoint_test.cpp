// The one way to a checkpoint: every reader compares every byte of it, and where the last one is damaged
// the error names the last whole one and the command that goes on from it, which works.
#include "model/inference/weights/open_checkpoint.h"

#include <gtest/gtest.h>

#include "model/data/synthetic/synth.h"
#include "tests/engine/command.h"

namespace isobar::engine {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

void flip(const std::string& file, size_t from_end = 1) {
  std::string bytes = text_of(file);
  ASSERT_GT(bytes.size(), from_end) << file;
  bytes[bytes.size() - from_end] ^= 4;
  std::ofstream(file, std::ios::binary) << bytes;
}

void expect_one_line(const Ended& e, const Words& words) {
  EXPECT_EQ(e.code, 2) << e.text;
  for (const std::string& word : words) EXPECT_HAS(e.text, word);
  size_t lines = 0;
  for (size_t at = e.text.find("isobar: "); at != std::string::npos; at = e.text.find("isobar: ", at + 1))
    ++lines;
  EXPECT_EQ(lines, 1u) << e.text;
}

/// Run with a moving average of its weights, validated by it; checkpoints of steps 2, 4 and 6.
class DamagedRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Folder;
    data::make_synthetic(*shared_ / "set", {.train_years = 1,
                                            .valid_years = 1,
                                            .test_years = 0,
                                            .samples_per_year = 10,
                                            .channels = 4,
                                            .height = 32,
                                            .width = 64,
                                            .show_progress = false});
    const Ended e = go_on(*shared_ / "run", {"train.steps=6"});
    ASSERT_EQ(e.code, 0) << e.text;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static Words settings(const std::string& out) {
    return {"data.train=" + (*shared_ / "set/train"),
            "data.valid=" + (*shared_ / "set/valid"),
            "train.checkpoint_every=2",
            "train.ema=0.5",
            "train.ema_valid=true",
            "run.threads=1",
            "run.out=" + out};
  }
  static Ended go_on(const std::string& out, const Words& set, const Words& more = {}) {
    return train_command(settings(out) + set, more);
  }
  void SetUp() override {
    run = dir / "run";
    fs::copy(*shared_ / "run", run, fs::copy_options::recursive);
  }
  std::string step(int n) const { return run + "/checkpoints/step-0000000" + std::to_string(n); }
  static Ended command_of(Words words) {
    words.insert(words.begin(), command());
    return Child(words).wait();
  }
  Folder dir;
  std::string run;

 private:
  static inline Folder* shared_ = nullptr;
};

// `export` wrote such weights with exit code 0, and averages were not compared by any reader.
TEST_F(DamagedRun, EveryReaderRefusesOneFlippedBit) {
  for (const char* file : {"model.safetensors", "average.safetensors"}) {
    SCOPED_TRACE(file);
    const std::string there = step(6) + "/" + file, whole = text_of(there);
    flip(there);
    const Words says = {file, "is damaged", step(4) + ", the last whole one", "--resume " + step(4)};
    for (const Words& reader :
         {Words{"export", run, "-o", dir / "w.safetensors"}, Words{"forecast", run, "-o", dir / "f.nc"},
          Words{"verify", run}, Words{"jacobian", run, "--point", "16,32", "-o", dir / "j.nc"}}) {
      SCOPED_TRACE(reader[0]);
      expect_one_line(command_of(reader), says);
    }
    for (const char* left : {"w.safetensors", "w.safetensors.tmp", "f.nc", "j.nc"})
      EXPECT_FALSE(fs::exists(dir / left)) << left;
    expect_one_line(go_on(run, {"train.steps=8"}, {"--resume", run}), says);
    expect_one_line(go_on(dir / "other", {"train.steps=1", "train.init_from=" + there}), says);
    std::ofstream(there, std::ios::binary) << whole;
  }
  flip(step(6) + "/model.safetensors");
  expect_one_line(go_on(dir / "another", {"train.steps=1", "train.init_from=" + run}), {"is damaged"});
  EXPECT_TRUE(fs::exists(step(6))) << "who reads renames nothing";
}

// The advice went in a circle: "take another checkpoint", "is not the last one: resume the last one".
TEST_F(DamagedRun, TheNamedCommandGoesOnAndSetsTheDamagedAside) {
  const auto damages = {
      +[](const std::string& at) { flip(at + "/optimizer.safetensors"); },
      +[](const std::string& at) { fs::resize_file(at + "/model.safetensors", 1000); },
      +[](const std::string& at) { fs::remove(at + "/average.safetensors"); },
      +[](const std::string& at) { flip(at + "/state.json", 60); },
      +[](const std::string& at) { std::ofstream(at + "/state.json") << "{"; },
  };
  for (const auto& harm : damages) {
    fs::remove_all(run);
    SetUp();
    harm(step(6));
    const std::string bytes = text_of(step(6) + "/model.safetensors");
    const Ended refused = go_on(run, {"train.steps=8"}, {"--resume", run});
    expect_one_line(refused, {step(6), step(4) + ", the last whole one"});
    const size_t at = refused.text.find("--resume ") + 9;
    const std::string named = refused.text.substr(at, refused.text.find(' ', at) - at);
    ASSERT_EQ(named, step(4));
    const Ended e = go_on(run, {"train.steps=8"}, {"--resume", named});
    ASSERT_EQ(e.code, 0) << e.text;
    EXPECT_HAS(e.text, "set aside as step-00000006.damaged");
    EXPECT_HAS(e.text, "after step 4");
    EXPECT_EQ(text_of(step(6) + ".damaged/model.safetensors"), bytes) << "it was to be kept as it is";
    EXPECT_TRUE(fs::exists(step(6) + "/state.json")) << "made again on the way";
    EXPECT_TRUE(fs::exists(step(8) + "/state.json"));
  }
}

TEST_F(DamagedRun, WithoutItsStateALaterOneStandsInNobodysWay) {
  fs::remove(step(6) + "/state.json");
  expect_one_line(go_on(run, {"train.steps=8"}, {"--resume", step(6)}),
                  {"state.json", "is missing", step(4) + ", the last whole one"});
  const Ended e = go_on(run, {"train.steps=8"}, {"--resume", run});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_HAS(e.text, "set aside as step-00000006.damaged");
}

TEST_F(DamagedRun, AWholeLaterOneIsNotSetAside) {
  expect_one_line(go_on(run, {"train.steps=8"}, {"--resume", step(4)}), {"is not the last checkpoint"});
  expect_one_line(go_on(run, {"train.steps=8"}, {"--resume", step(4), "--set-aside-damaged"}),
                  {"is not the last checkpoint"});
  EXPECT_TRUE(fs::exists(step(6)));
}

// Jobs of a chain do this, on one rank and on two, whichever way the damage is found.
TEST_F(DamagedRun, JobsSetAsideByThemselves) {
  for (const char* ranks : {"1", "2"})
    for (const char* file : {"model.safetensors", "state.json"}) {
      SCOPED_TRACE(std::string(file) + " on ranks " + ranks);
      fs::remove_all(run);
      SetUp();
      flip(step(6) + "/" + file, 60);
      flip(step(4) + "/optimizer.safetensors");
      const Ended e =
          go_on(run, {"train.steps=8"}, {"--resume", run, "--set-aside-damaged", "--ranks", ranks});
      ASSERT_EQ(e.code, 0) << e.text;
      EXPECT_HAS(e.text, "set aside as step-00000006.damaged");
      EXPECT_HAS(e.text, "set aside as step-00000004.damaged");
      EXPECT_HAS(e.text, "after step 2");
      EXPECT_TRUE(fs::exists(step(8) + "/state.json"));
    }
}

TEST_F(DamagedRun, WithoutAWholeOneItSaysSo) {
  for (const int n : {2, 4, 6}) flip(step(n) + "/model.safetensors");
  expect_one_line(go_on(run, {"train.steps=8"}, {"--resume", run}),
                  {"no other checkpoint of this run is whole"});
  const Ended e = go_on(run, {"train.steps=8"}, {"--resume", run, "--set-aside-damaged"});
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_HAS(e.text, "holds no whole checkpoint: damaged ones were set aside");
  const Ended again = go_on(run, {"train.steps=8"});
  EXPECT_EQ(again.code, 2) << again.text;
  EXPECT_EQ(again.text.find("--resume"), std::string::npos) << "a circle:\n" << again.text;
}

// The step is inside a checkpoint, and its name has to say the same.
TEST_F(DamagedRun, ARenamedOneIsRefused) {
  fs::rename(step(6), dir / "six");
  fs::rename(step(4), step(9));
  const Words says = {"step-00000009", "'step': is 4", "9 by its name", step(2) + ", the last whole one"};
  expect_one_line(go_on(run, {"train.steps=12"}, {"--resume", run}), says);
  expect_one_line(command_of({"export", run, "-o", dir / "w.safetensors"}), says);
  const Ended e = go_on(run, {"train.steps=4"}, {"--resume", step(2)});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_HAS(e.text, "set aside as step-00000009.damaged");
  // One that lies elsewhere, under a name that says no step, is what it is.
  EXPECT_EQ(command_of({"export", dir / "six", "-o", dir / "w.safetensors"}).code, 0);
}

TEST(CheckpointNames, AreOrderedByTheirNumber) {
  const Folder dir;
  for (const char* name :
       {"step-99999999", "step-100000000", "step-00000100", "step-00000200.tmp", "step-00000300.damaged",
        "step-00000300.damaged-2", "step-12x", "step-", "best", "step-99999999999999999999"}) {
    fs::create_directories(fs::path(dir / "checkpoints") / name);
    std::ofstream(fs::path(dir / "checkpoints") / name / "state.json") << "{}";
  }
  std::vector<std::string> names;
  for (const fs::path& one : checkpoints_of(dir / "")) names.push_back(one.filename());
  EXPECT_EQ(names, (Words{"step-00000100", "step-99999999", "step-100000000"}));
}

}  // namespace
}  // namespace isobar::engine
