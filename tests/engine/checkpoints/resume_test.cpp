// Checks of a resume: the net and the data order must be those of the checkpoint, the files must be whole
// and of one step. Each refusal is one line with both values; what may change is printed.
#include <gtest/gtest.h>

#include "tests/engine/command.h"

namespace isobar::engine {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

class Resumed : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Folder;
    const Ended e = train_command(
        {"train.steps=4", "train.checkpoint_every=2", "run.threads=1", "run.out=" + (*shared_ / "run")});
    ASSERT_EQ(e.code, 0) << e.text;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static std::string checkpoint(int step) {
    return *shared_ / ("run/checkpoints/step-0000000" + std::to_string(step));
  }
  /// A copy of step 4 to do harm to.
  std::string copy() {
    std::string to = dir / ("copy" + std::to_string(++copies_));
    fs::copy(checkpoint(4), to, fs::copy_options::recursive);
    return to;
  }
  Ended resume(const std::string& from, Words set, const char* ranks = "1") {
    out = dir / ("out" + std::to_string(++copies_));
    set.insert(set.begin(), {"train.steps=6", "run.threads=1", "run.out=" + out});
    return train_command(set, {"--resume", from, "--ranks", ranks});
  }
  void expect_refused(const Ended& e, const Words& words) {
    EXPECT_EQ(e.code, 2) << e.text;
    for (const std::string& word : words) EXPECT_HAS(e.text, word);
    size_t lines = 0;
    for (size_t at = e.text.find("isobar: "); at != std::string::npos; at = e.text.find("isobar: ", at + 1))
      ++lines;
    EXPECT_EQ(lines, 1u) << e.text;
    EXPECT_EQ(e.text.find("json.exception"), std::string::npos) << e.text;
    EXPECT_TRUE(read_run(out).losses.empty()) << "it trained";
  }
  Folder dir;
  std::string out;

 private:
  static inline Folder* shared_ = nullptr;
  int copies_ = 0;
};

TEST_F(Resumed, AnotherNetOrDataOrderIsRefusedByName) {
  struct Case {
    const char *set, *key, *was, *now;
  };
  for (const Case& c : {Case{"net.num_heads=8", "'net.num_heads'", "with 4", "not 8"},
                        Case{"net.gelu=tanh", "'net.gelu'", "with \"erf\"", "not \"tanh\""},
                        Case{"net.norm_eps=1e-5", "'net.norm_eps'", "with 1e-06", "not 1e-05"},
                        Case{"net.depth=3", "'net.depth'", "with 2", "not 3"},
                        Case{"train.optimizer=adamw", "'train.optimizer'", "with \"adam\"", "not \"adamw\""},
                        Case{"train.seed=6", "'train.seed'", "with 0", "not 6"},
                        Case{"train.global_batch=16", "'train.global_batch'", "with 8", "not 16"},
                        Case{"data.dt=2", "'data.dt'", "with 1", "not 2"},
                        Case{"data.variables=[t2m]", "'data.variables'", "with []", "not [\"t2m\"]"},
                        Case{"train.steps=3", "'train.steps'", "is 3", "raise train.steps above 4"}}) {
    SCOPED_TRACE(c.set);
    expect_refused(resume(checkpoint(4), {c.set}), {c.key, c.was, c.now, "->"});
  }
  expect_refused(resume(checkpoint(4), {"net.num_heads=8"}, "2"), {"'net.num_heads'", "with 4, not 8"});
  expect_refused(resume(checkpoint(4), {"train.steps=4"}), {"nothing is left to train", "raise train.steps"});
}

TEST_F(Resumed, WhatMayChangeIsPrintedAndWritten) {
  const Ended e = resume(checkpoint(4),
                         {"train.lr=1e-3", "policy.amp=bf16", "data.workers=1", "policy.micro_batch=2"}, "2");
  ASSERT_EQ(e.code, 0) << e.text;
  for (const char* word : {"after step 4; changed: ", "train.lr 0.0005 -> 0.001", "layout.dp 1 -> 2",
                           "policy.amp \"none\" -> \"bf16\"", "train.steps 4 -> 6", "data.workers 0 -> 1"})
    EXPECT_HAS(e.text, word);
  json said;
  for (const json& event : read_run(out).events)
    if (event["event"] == "resume") said = event;
  EXPECT_EQ(said["changed"]["train.lr"], (json{0.0005, 0.001}));
  EXPECT_EQ(said["checked"], true);
  EXPECT_FALSE(said["changed"].contains("run.out"));
}

TEST_F(Resumed, FilesOfDifferentStepsOrDamagedAreRefused) {
  const auto flipped = [](const std::string& file, size_t byte) {
    std::string bytes = text_of(file);
    bytes.at(byte) = static_cast<char>(bytes.at(byte) ^ 16);
    std::ofstream(file, std::ios::binary) << bytes;
  };
  for (const char* ranks : {"1", "2"}) {
    SCOPED_TRACE(ranks);
    const auto overwrite = fs::copy_options::overwrite_existing;
    std::string at = copy();
    fs::copy_file(checkpoint(2) + "/optimizer.safetensors", at + "/optimizer.safetensors", overwrite);
    expect_refused(resume(at, {}, ranks), {"optimizer.safetensors", "'step': is 2", "of step 4", "->"});
    at = copy();
    fs::copy_file(checkpoint(2) + "/state.json", at + "/state.json", overwrite);
    expect_refused(resume(at, {}, ranks), {"model.safetensors", "'step': is 4", "of step 2"});
    at = copy();
    flipped(at + "/model.safetensors", fs::file_size(at + "/model.safetensors") - 100);
    expect_refused(resume(at, {}, ranks), {"model.safetensors", "is damaged", "take another checkpoint"});
    at = copy();
    flipped(at + "/optimizer.safetensors", 5);  // the header's length
    expect_refused(resume(at, {}, ranks), {"optimizer.safetensors", "->"});
    at = copy();
    fs::resize_file(at + "/optimizer.safetensors", 1000);
    expect_refused(resume(at, {}, ranks), {"optimizer.safetensors", "holds 1000 bytes", "->"});
    at = copy();
    fs::remove(at + "/model.safetensors");
    expect_refused(resume(at, {}, ranks), {"model.safetensors", "is missing", "->"});
    at = copy();
    std::ofstream(at + "/state.json") << R"({"schema": 2, "step": -1})";
    expect_refused(resume(at, {}, ranks), {"state.json", "'step': is -1", "->"});
  }
}

// Checkpoints from before schema 2 go on, and what could not be checked is said.
TEST_F(Resumed, AnOldCheckpointSaysWhatIsNotChecked) {
  const std::string at = copy();
  json old = {{"schema", 1}, {"step", 4}, {"seed", 0}, {"global_batch", 8}};
  old["plateau"] = {{"bad", 0}, {"cooldown", 0}, {"factor", 1.0}};
  std::ofstream(at + "/state.json") << old.dump(1);
  const Ended e = resume(at, {});
  EXPECT_EQ(e.code, 0) << e.text;
  EXPECT_HAS(e.text, "only shapes, train.seed and train.global_batch were checked");
  expect_refused(resume(at, {"train.seed=1"}), {"'train.seed'", "with 0, not 1"});
  expect_refused(resume(at, {"net.depth=3"}), {"blocks.2", "is missing from the checkpoint"});
  for (const auto& [key, value] :
       {std::pair<const char*, json>{"step", -1}, {"step", "4"}, {"seed", "x"}, {"step", 4000}}) {
    json bad = old;
    bad[key] = value;
    std::ofstream(at + "/state.json") << bad.dump(1);
    expect_refused(resume(at, {}), {"->"});
  }
}

}  // namespace
}  // namespace isobar::engine
