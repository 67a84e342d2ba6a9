// Bars of tqdm within each other, of unknown length, and of samples: a step is a batch of the training.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/logs/read_output.h"

namespace isobar::logs {
namespace {

constexpr int kEpochs = 3, kBatches = 30;
constexpr double kBatch_s = 0.125;

/// Lines of tqdm, whose program takes kBatch_s for a batch.
class DrawnBars {
 public:
  void draw(const std::string& name, int done, int total, const std::string& unit = "it") {
    const std::string count = std::to_string(done) + (total > 0 ? "/" + std::to_string(total) : "it");
    const std::string percent = total > 0 ? " " + std::to_string(100 * done / total) + "%|##   | " : "";
    lines_.push_back({now_, name + percent + count + " [00:01" + (total > 0 ? "<00:02" : "") + ",  8.00" +
                                unit + "/s]\x1b[A"});
  }
  void batches(const std::string& name, int n, bool known, int each = 1, const std::string& unit = "it") {
    draw(name, 0, known ? n * each : 0, unit);
    for (int i = 1; i <= n; ++i) {
      wait();
      draw(name, i * each, known ? n * each : 0, unit);
    }
  }
  void wait() { now_ += kBatch_s; }
  Output read_all(int64_t batch = 0) const { return read({.reads = "auto", .batch = batch}, lines_); }

 private:
  double now_ = 0;
  std::vector<TimedLine> lines_;
};

void expect_batches(const Output& o) {
  EXPECT_EQ(o.summary.last_step, kEpochs * kBatches);
  ASSERT_GT(o.steps.size(), 80u);
  std::vector<double> seconds;
  for (const records::StepRecord& s : o.steps) seconds.push_back(s.seconds);
  std::nth_element(seconds.begin(), seconds.begin() + 40, seconds.end());
  EXPECT_NEAR(seconds[40], kBatch_s, 1e-9);
}

TEST(Bars, OfBatchesWithinOneOfEpochs) {
  struct Case {
    std::string outer, inner;
  };
  // trange(3, desc="Epoch") and tqdm(loader) with names or none; the last is of Hugging Face's older
  // examples.
  for (const Case& c : {Case{"Epoch: ", ""}, Case{"", ""}, Case{"", "Training: "},
                        Case{"Epochs: ", "Epoch 1: "}, Case{"Epoch: ", "Iteration: "}}) {
    DrawnBars bars;
    bars.draw(c.outer, 0, kEpochs);
    for (int e = 0; e < kEpochs; ++e) {
      bars.batches(c.inner, kBatches, true);
      bars.batches("Validation: ", 10, true);
      bars.draw(c.outer, e + 1, kEpochs);
    }
    SCOPED_TRACE(c.outer + "|" + c.inner);
    expect_batches(bars.read_all());
  }
}

TEST(Bars, OfStepsAroundAnEvaluation) {
  constexpr int kAll = kEpochs * kBatches;
  DrawnBars bars;
  bars.draw("", 0, kAll);
  for (int i = 1; i <= kAll; ++i) {
    bars.wait();
    bars.draw("", i, kAll);
    if (i % kBatches == 0) bars.batches("", 10, true);
  }
  expect_batches(bars.read_all());
}

TEST(Bars, OfUnknownLength) {
  for (const char* name : {"", "Epoch 0: "}) {
    DrawnBars bars;
    for (int e = 0; e < kEpochs; ++e) bars.batches(name, kBatches, false);
    SCOPED_TRACE(name);
    expect_batches(bars.read_all());
  }
}

// A number with a unit of its own is not that of its key: "step_time=250ms" is no 250 s.
TEST(Bars, AndObjectsOfNumbersWithUnits) {
  for (const char* text :
       {"Epoch 1:  45%|##  | 1/9 [00:05<00:06, 8.5it/s, loss=2.5, step_time=250ms, tok/s=65.5k]",
        R"({"step": 1, "loss": "2.5", "step_time": "250 ms"})"}) {
    const Output o = read({.reads = "auto", .batch = 32, .tokens = 8, .untimed = true}, {{0, text}});
    ASSERT_EQ(o.steps.size(), 1u) << text;
    EXPECT_EQ(*o.steps[0].loss, 2.5) << text;
    EXPECT_EQ(o.steps[0].seconds, 0) << text;
  }
}

// milesial/Pytorch-UNet: tqdm(total=n_train, unit='img'), moved on by a batch
TEST(Bars, OfSamplesCountNoSteps) {
  DrawnBars bars;
  for (int e = 0; e < kEpochs; ++e) bars.batches("Epoch 1/3: ", kBatches, true, 16, "img");
  expect_batches(bars.read_all(16));
  EXPECT_TRUE(bars.read_all(0).steps.empty()) << "a batch is of an unknown number";
}

}  // namespace
}  // namespace isobar::logs
