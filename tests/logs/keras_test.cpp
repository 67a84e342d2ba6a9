// Output of Keras 3.15 and of Keras 2, as a terminal, a pipe and verbose=2 get it.
#include <gtest/gtest.h>

#include <filesystem>

#include "bench/logs/output_reader.h"
#include "model/base/system/files.h"
#include "tests/logs/read_output.h"

namespace isobar::logs {
namespace {

const std::string kBar = "━━━━━━━━━━";

/// A line of three epochs of 40 batches, each of 50 ms in the mean; the validation takes two seconds.
std::string keras_line(int of_epoch, const std::string& time, double loss, const std::string& more = "") {
  return "\x1b[1m" + std::to_string(of_epoch) + "/40\x1b[0m \x1b[32m" + kBar +
         "\x1b[0m\x1b[37m\x1b[0m \x1b[1m1s\x1b[0m " + time +
         "/step - accuracy: 0.5000 - loss: " + std::to_string(loss) + more;
}

void expect_three_epochs(const Output& o, size_t a_epoch) {
  ASSERT_EQ(o.steps.size(), 3 * a_epoch);
  EXPECT_EQ(o.summary.last_step, 120);
  EXPECT_EQ(*o.summary.loss, 1.5);
  ASSERT_EQ(o.valid.size(), 3u);
  for (int64_t e = 0; e < 3; ++e) {
    EXPECT_EQ(o.valid[e].step, 40 * (e + 1));
    EXPECT_EQ(*o.valid[e].loss, 2 - 0.25 * static_cast<double>(e));
  }
}

TEST(KerasLines, BarsOfThreeEpochsBetweenEvaluations) {
  std::vector<TimedLine> lines;
  const auto say = [&](const std::string& text) {
    lines.push_back({1.0 * static_cast<double>(lines.size()), text});
  };
  say("\x1b[1m8/8\x1b[0m " + kBar + " \x1b[1m0s\x1b[0m 10ms/step - accuracy: 0.1 - loss: 9.0");  // evaluate()
  for (int e = 0; e < 3; ++e) {
    say("Epoch " + std::to_string(e + 1) + "/3");
    for (const int i : {1, 20, 40}) say(keras_line(i, i == 1 ? "900ms" : "50ms", 2.5 - 0.5 * e));
    say(keras_line(40, "100ms", 2.5 - 0.5 * e,
                   " - val_accuracy: 0.6 - val_loss: " + std::to_string(2 - 0.25 * e)));
  }
  say("\x1b[1m20/20\x1b[0m " + kBar + " \x1b[1m0s\x1b[0m 4us/step - accuracy: 0.1 - loss: 9.0");
  say(keras_line(40, "10ms", 9));  // evaluate() over as many batches
  const Output o = read({.reads = "auto", .untimed = true}, lines);
  expect_three_epochs(o, 3);
  EXPECT_EQ(o.steps[0].seconds, 0.9);
  for (const size_t i : {1, 2, 4, 5, 7, 8}) EXPECT_EQ(o.steps[i].seconds, 0.05) << i;
  EXPECT_EQ(o.read_by.begin()->first, "tqdm");
}

TEST(KerasLines, OneLineAnEpoch) {
  for (const bool three : {true, false}) {
    std::vector<TimedLine> lines;
    for (int e = 0; e < 3; ++e) {
      lines.push_back({10.0 * e, "Epoch " + std::to_string(e + 1) + "/3"});
      const std::string loss = "loss: " + std::to_string(2.5 - 0.5 * e),
                        valid = "val_loss: " + std::to_string(2 - 0.25 * e);
      lines.push_back(
          {10.0 * e + 8,
           three ? "40/40 - 8s - 200ms/step - accuracy: 0.5 - " + loss + " - " + valid
                 : "40/40 - 8s - " + loss + " - accuracy: 0.5 - " + valid + " - 8s/epoch - 200ms/step"});
    }
    const Output o = read({.reads = "auto", .untimed = true}, lines);
    expect_three_epochs(o, 1);
    EXPECT_EQ(o.steps[2].seconds, 0.25) << "by the clock: the printed time is of the validation, too";
  }
  const Output alone = read({.reads = "auto"}, {{0, "Epoch 1/2"},
                                                {8, "40/40 - 8s - 200ms/step - loss: 2.5"},
                                                {8, "Epoch 2/2"},
                                                {17, "40/40 - 8s - 2s/step - loss: 2.5"}});
  ASSERT_EQ(alone.steps.size(), 2u);
  EXPECT_EQ(alone.steps[0].seconds, 0.2);
  EXPECT_NEAR(alone.steps[1].seconds, 0.225, 1e-12) << "whole seconds are too coarse";
}

TEST(KerasLines, BatchesOfAnUnknownNumber) {
  std::vector<TimedLine> lines = {{0, "Epoch 1/2"}};
  for (int i = 1; i <= 30; ++i)
    lines.push_back({0.1 * i, "     " + std::to_string(i) + "/Unknown 1s 50ms/step - loss: 2.5"});
  lines.push_back({4, "Epoch 2/2"});
  for (int i = 1; i <= 30; ++i)
    lines.push_back({4 + 0.1 * i, std::to_string(i) + "/30 [====>....] - ETA: 1s - loss: 2.25"});
  EXPECT_EQ(read({.reads = "auto"}, lines).summary.last_step, 60);
}

// A date in a heading, as of script(1), is no time of a step.
TEST(KerasLines, ADateAboveTheStepsIsNoClock) {
  const std::string file = testing::TempDir() + "keras_dated.log";
  std::string text = "Script started on 2026-11-29 10:47:01+00:00\nEpoch 1/2\n";
  for (int i = 1; i <= 40; ++i) text += "\r" + keras_line(i, "900ms", 2.5);
  write_atomically(file, text + "\nScript done on 2026-11-29 10:47:02+00:00\n");
  const std::string tried = tried_log(file, {});
  EXPECT_EQ(tried.find("contradiction"), std::string::npos) << tried;
  EXPECT_NE(tried.find("900 ms"), std::string::npos) << tried;
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace isobar::logs
