// Lines of a validation are no steps of the training: neither their loss nor their time nor their count is.
#include <gtest/gtest.h>

#include <optional>

#include "tests/logs/read_output.h"

namespace isobar::logs {
namespace {

struct ValidationLine {
  const char* text;
  int64_t at;  // step of the record
};

TEST(ValidationLines, AreNoSteps) {
  const ValidationLine cases[] = {
      {"eval metrics after step: 20, loss=8.125, total_weights=1000, step_time_seconds=9.0", 20},  // MaxText
      {"[Eval] step 20 loss 8.125 time 9.0 s", 20},
      {"2025-01-01 10:00:00,123 - INFO - Validation: step 20, loss 8.125, 9.0 s/step", 20},
      {"val | step 20 | loss 8.125 | 90.0 ms/step", 20},
      {"Eval step: 20 | loss: 8.125 | step_time: 9.0", 20},
      {"[val] iter 20 loss 8.125", 20},
      {"evaluation at step 20: loss 8.125 took 9.0 s", 20},
      {"Test step 20 loss 8.125", 20},
      {"step 20: test loss 8.125 time 9.0 s", 20},
      {"epoch 001 | valid on 'valid' subset | loss 8.125 | ups 0.1 | num_updates 20", 20},  // fairseq
      {R"({"step": 20, "loss": 8.125, "step_time": 9.0, "split": "val"})", 20},
      {R"({"mode": "eval", "epoch": 1, "iter": 20, "loss": 8.125, "step_time": 9.0})", 20},
      {"Evaluating step 5/200 loss 8.125 time 9.0 s", 10}};  // its own count
  for (const ValidationLine& c : cases) {
    SCOPED_TRACE(c.text);
    // Before the training's line of the step, as by MaxText, and behind it
    for (const bool behind : {false, true}) {
      std::vector<TimedLine> lines = {{0, "step: 10, seconds: 2.0, loss: 4.5"},
                                      {20, "step: 20, seconds: 2.0, loss: 4.25"}};
      lines.insert(lines.begin() + (behind ? 2 : 1), {10, c.text});
      const Output o = read({.reads = "auto", .batch = 32, .tokens = 8, .untimed = true}, lines);
      ASSERT_EQ(o.steps.size(), 2u);
      EXPECT_EQ(o.steps[1].step, 20);
      EXPECT_EQ(o.steps[1].seconds, 2);
      EXPECT_EQ(*o.steps[1].loss, 4.25);
      EXPECT_EQ(o.summary.loss, 4.25);
      ASSERT_EQ(o.valid.size(), 1u);
      EXPECT_EQ(*o.valid[0].loss, 8.125);
      EXPECT_EQ(o.valid[0].step, behind && c.at == 10 ? 20 : c.at);
      EXPECT_TRUE(o.summary.notes.size() == 1) << "the warm-up's";
    }
  }
}

TEST(ValidationLines, ObjectsAndTimesOfPartsAreNoneOfAStep) {
  for (
      const char* text :
      {R"({"step": 1, "eval": {"loss": 8.5, "step_time": 9.0}, "loss": 2.5, "step_time": 0.25})",
       R"({"step": 1, "metrics": {"eval": {"loss": 8.5, "samples_per_s": 9.0}}, "train": {"loss": 2.5, "step_time": 0.25}})",
       "iter 1 | loss 2.5 | data time 9.0 s | batch time 0.25 s",
       "step 1 loss 2.5 forward took 9.0 s, loading took 9.0 s, step took 0.25 s"}) {
    const Output o = read({.reads = "auto", .untimed = true}, {{0, text}});
    ASSERT_EQ(o.steps.size(), 1u) << text;
    EXPECT_EQ(o.steps[0].step, 1) << text;
    EXPECT_EQ(o.steps[0].seconds, 0.25) << text;
    EXPECT_EQ(*o.steps[0].loss, 2.5) << text;
  }
}

TEST(ValidationLines, AThroughputMayBeOfOtherThings) {
  const auto seconds = [](const std::string& text) {
    return read({.reads = "auto", .batch = 16, .tokens = 8, .untimed = true},
                {{0, "step 1 loss 2.5 " + text}})
        .steps.at(0)
        .seconds;
  };
  for (const char* text : {"throughput: 64.0", "throughput 64.0 samples/s", "throughput 512 tokens/s",
                           "throughput 0.512k tok/s", "0.064k samples/s", "throughput 64 mfu 0.4"})
    EXPECT_EQ(seconds(text), 0.25) << text;
  for (const char* text :
       {"throughput: 350.5 TFLOPS", "throughput: 350.5 TFLOP/s/GPU", "throughput: 1.2k tokens/s/gpu"})
    EXPECT_EQ(seconds(text), 0) << text;
}

TEST(ValidationLines, WordsOfFilesAndRunsAreNone) {
  for (const char* text :
       {"eval.py:12] step 20 loss 4.25 time 2.0 s", "pkg.eval.log - INFO - step 20 loss 4.25 2.0 s/it",
        "INFO run test | step 20 | loss 4.25 | 2.0 s/it",
        "step 20 loss 4.25 time 2.0 s (validation every 100)"}) {
    const Output o = read({.reads = "auto", .untimed = true}, {{0, text}});
    ASSERT_EQ(o.steps.size(), 1u) << text;
    EXPECT_EQ(o.steps[0].seconds, 2);
    EXPECT_TRUE(o.valid.empty());
  }
}

TEST(ValidationLines, CountsAndBarsOfTheValidationAreLeftOut) {
  const Output o = read({.reads = "auto", .untimed = true},
                        {{0, "Epoch: [0][ 10/100]\tTime  0.125 ( 0.5)\tLoss 4.25e+00 (4.5e+00)"},
                         {1, "Val Epoch: [0][ 20/100]\tTime  9.0 ( 9.0)\tLoss 8.125e+00 (8.125e+00)"}});
  ASSERT_EQ(o.steps.size(), 1u);
  EXPECT_EQ(o.steps[0].seconds, 0.125);
  std::vector<TimedLine> lines;
  for (const char* name : {"Epoch 0", "Val epoch 0", "Test epoch 0", "Eval step"})
    for (int i = 1; i <= 3; ++i)
      lines.push_back(
          {1.0 * static_cast<double>(lines.size()),
           std::string(name) + ":  30%|###   | " + std::to_string(i) + "/3 [00:01<00:02,  1.00it/s]"});
  EXPECT_EQ(read({.reads = "auto", .untimed = true}, lines).summary.last_step, 3);
}

}  // namespace
}  // namespace isobar::logs
