// Lines and blocks that count a step or a batch in brackets.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "tests/logs/read_output.h"

namespace isobar::logs {
namespace {

// timm/train.py, torchvision's references, mmcv, mmengine, Swin-Transformer and pytorch/examples/imagenet
TEST(Readers, BatchesCountedInBrackets) {
  struct Case {
    std::vector<std::string> lines;
    int64_t first, last;
    double seconds, loss, mib;
  };
  const std::vector<Case> cases = {
      {{"Train: 0 [   0/100 (  0%)]  Loss: 6.952 (6.95)  Time: 9.812s,  104.36/s  (9.812s,  104.36/s)  LR: "
        "1.000e-06  Data: 6.011 (6.011)",
        "Test: [   0/48]  Time: 3.142 (3.142)  Loss:   6.712 ( 6.712)  Acc@1:   0.781 (  0.781)",
        "Train: 1 [  50/100 ( 50%)]  Loss: 6.801 (6.80)  Time: 0.400s, 2560.00/s  (0.465s, 2201.13/s)  LR: "
        "2.000e-04  Data: 0.011 (0.030)"},
       0,
       150,
       0.4,
       6.801,
       0},
      {{"Epoch: [0]  [  10/100]  eta: 0:12:33  lr: 0.5  img/s: 320.2  loss: 6.9812 (6.9850)  acc1: 0.0 (0.0) "
        " "
        "time: 0.6003  data: 0.2447  max mem: 5500",
        "Epoch: [0] Total time: 0:08:20", "Test:   [  0/98]  eta: 0:02:21  loss: 6.8 (6.8)  time: 1.4",
        "Epoch: [1]  [  20/100]  eta: 0:10:33  lr: 0.5  loss: 6.8812 (6.8850)  time: 0.4003  data: 0.0047  "
        "max "
        "mem: 5567"},
       10,
       120,
       0.4003,
       6.8812,
       5567},
      {{"2023/06/01 10:00:00 - mmengine - INFO - Epoch(train)   [1][  50/100]  base_lr: 1e-3 lr: 1.0000e-04  "
        "eta: 1 day, 2:03:04  time: 0.9561  data_time: 0.5123  memory: 5567  loss: 6.93  decode.loss_ce: 2.0",
        "2023/06/01 10:09:46 - mmengine - INFO - Epoch(val)   [1][  50/98]    eta: 0:00:10  time: 0.1571",
        "2023/06/01 10:11:46 - mmengine - INFO - Epoch(train)   [2][  50/100]  lr: 1.0000e-04  eta: 13:03:04 "
        " "
        "time: 0.4571  data_time: 0.0123  memory: 5567  loss: 6.8112"},
       50,
       150,
       0.4571,
       6.8112,
       5567},
      {{"2021-01-01 10:00:00,000 - mmdet - INFO - Epoch [1][50/100]\tlr: 1.978e-03, eta: 9:59:08, time: "
        "0.909, "
        "data_time: 0.051, memory: 3788, loss_cls: 1.1, loss: 2.3",
        "2021-01-01 10:00:30,000 - mmdet - INFO - Epoch [1][100/100]\tlr: 1.978e-03, eta: 9:59:08, time: "
        "0.409, "
        "data_time: 0.051, memory: 3788, loss_cls: 1.1, loss: 2.2"},
       50,
       100,
       0.409,
       2.2,
       3788},
      {{"Iter(train) [   50/80000]  lr: 1.0000e-04  eta: 2:03:04  time: 0.9561  memory: 5567  loss: 2.9312",
        "Iter(train) [  100/80000]  lr: 1.0000e-04  eta: 14:03:04  time: 0.4561  memory: 5567  loss: 2.9212"},
       50,
       100,
       0.4561,
       2.9212,
       5567},
      {{"[2021-04-10 11:00:00 swin_tiny](main.py 172): INFO Train: [0/300][0/100]\teta 3:04:00 lr "
        "0.000001\ttime 8.8212 (8.8212)\tloss 6.9453 (6.9453)\tgrad_norm 1.2012 (1.2012)\tmem 8871MB",
        "[2021-04-10 11:09:14 swin_tiny](main.py 172): INFO Train: [1/300][10/100]\teta 0:14:00 lr "
        "0.000002\ttime 0.4222 (1.8112)\tloss 6.9053 (6.9053)\tgrad_norm 1.2012 (1.2012)\tmem 9299MB"},
       0,
       110,
       0.4222,
       6.9053,
       9299},
      {{"Epoch: [0][  0/100]\tTime  5.123 ( 5.123)\tData  4.100 ( 4.100)\tLoss 7.0312e+00 (7.0312e+00)",
        "Epoch: [0][ 10/100]\tTime  0.123 ( 0.523)\tData  0.000 ( 0.400)\tLoss 7.0212e+00 (7.0250e+00)"},
       0,
       10,
       0.123,
       7.0212,
       0}};
  for (const Case& c : cases) {
    std::vector<TimedLine> lines;
    for (const std::string& line : c.lines) lines.push_back({10.0 * static_cast<double>(lines.size()), line});
    const Output o = read({.reads = "auto", .untimed = true}, lines);
    SCOPED_TRACE(c.lines.front());
    ASSERT_EQ(o.steps.size(), 2u);
    EXPECT_EQ(o.steps[0].step, c.first);
    EXPECT_EQ(o.steps[1].step, c.last);
    EXPECT_EQ(o.steps[1].seconds, c.seconds);
    EXPECT_EQ(*o.steps[1].loss, c.loss);
    EXPECT_EQ(o.summary.peak_bytes.value_or(0), static_cast<int64_t>(c.mib * kMiB));
    EXPECT_TRUE(o.valid.empty());
  }
  // The rate of all ranks, beside the time, is a second number of the batch.
  const Output rate = read({.reads = "timm", .batch = 128},
                           {{0, cases[0].lines[0]},
                            {10, cases[0].lines[2]},
                            {11, "Train: 1 [ 60/100 ( 60%)]  Loss: 6.8 (6.8)  Time: 0.400s, 2560.00/s"}});
  ASSERT_TRUE(rate.summary.contradiction.has_value());
  EXPECT_NE(rate.summary.contradiction->find("1024"), std::string::npos) << *rate.summary.contradiction;
  // Samples in brackets, as in PyTorch's MNIST example, are no steps.
  EXPECT_TRUE(read({.reads = "timm"}, {{0, "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3"}}).steps.empty());
}

// Lines that leave out the end of an epoch, whose number of steps they say
TEST(Readers, StepsOfEpochsWhoseNumberIsSaid) {
  struct Epoched {
    int from, every, to;
    int64_t last;
  };
  for (const Epoched& c :
       {Epoched{250, 250, 600, 1700}, {600, 600, 600, 1800}, {0, 600, 600, 1200}, {0, 500, 600, 1700}})
    for (const char* form :
         {"Epoch [%d/3], Step [%d/600], Loss: 2.5", "epoch %d | step %d of 600 | loss 2.5"}) {
      std::vector<TimedLine> lines;
      for (int e = 0; e < 3; ++e)
        for (int i = c.from; i < c.to + (c.from > 0 ? 1 : 0); i += c.every) {
          char text[80];
          std::snprintf(text, sizeof text, form, e + 1, i);
          lines.push_back({0.5 * (600 * e + i), text});
        }
      const Output o = read({.reads = "auto", .batch = 32, .untimed = true}, lines);
      SCOPED_TRACE(lines.back().text);
      ASSERT_EQ(o.steps.size(), lines.size());
      EXPECT_EQ(o.steps.back().step, c.last);
      for (size_t i = 1; i < o.steps.size(); ++i) EXPECT_NEAR(o.steps[i].seconds, 0.5, 1e-9);
    }
  // Steps of all epochs
  const Output whole =
      read({.reads = "auto", .batch = 32, .untimed = true}, {{0, "epoch 1 step 600/1800 loss 2.5"},
                                                             {300, "epoch 2 step 1200/1800 loss 2.5"},
                                                             {300, "epoch 3 step 1200/1800 loss 2.5"}});
  EXPECT_EQ(whole.steps.back().step, 1200);
}

TEST(Readers, CountedLinesHaveUnits) {
  const Output o = read({.reads = "timm", .untimed = true},
                        {{0, "Epoch: [0][10/100]\tTime 250.0ms (260.0ms)\tLoss 2.5 (2.5) max mem: 12.5 GB"}});
  ASSERT_EQ(o.steps.size(), 1u);
  EXPECT_EQ(o.steps[0].seconds, 0.25);
  EXPECT_EQ(o.summary.peak_bytes, static_cast<int64_t>(12.5 * kGiB));
}

TEST(Readers, Detectron2) {
  std::vector<TimedLine> lines;
  for (int i = 19; i < 100; i += 20)
    lines.push_back({1.0 * i, "[06/01 10:00:19 d2.utils.events]:  eta: 0:10:00  iter: " + std::to_string(i) +
                                  "  total_loss: 1.5  loss_cls: 0.5    time: 0.4012  last_time: 0.3912  "
                                  "data_time: 0.0123  last_data_time: 0.002   lr: 0.001  max_mem: 5567M"});
  const Output o = read({.reads = "auto", .untimed = true}, lines);
  ASSERT_EQ(o.steps.size(), 5u);
  EXPECT_EQ(o.steps[1].step, 39);
  EXPECT_EQ(o.steps[1].seconds, 0.4012);
  EXPECT_EQ(o.steps[1].loss, 1.5);
  EXPECT_EQ(o.summary.peak_bytes, static_cast<int64_t>(5567 * kMiB));
}

// olmo/train.py, and Composer's ConsoleLogger
TEST(Readers, BlocksOfAStep) {
  const std::vector<std::vector<std::string>> logs = {
      {"2024-02-01 10:00:00.000\tnode01:0\tolmo.train:951\tINFO\t[step=1/739328,epoch=0]",
       "    train/CrossEntropyLoss=11.38", "    train/Perplexity=87,901",
       "    throughput/total_tokens=4,194,304",
       "2024-02-01 10:00:10.000\tnode01:0\tolmo.train:951\tINFO\t[step=2/739328,epoch=0]",
       "    train/CrossEntropyLoss=11.28", "    throughput/device/tokens_per_second=8,192",
       "    throughput/device/batches_per_second=0.2500", "    System/Peak GPU Memory (MB)=43,212", "done",
       "    train/CrossEntropyLoss=1.0"},
      {"[batch=1/4800]:", "\t Train time/batch: 0", "\t Train loss/train/total: 11.3800",
       "[batch=2/4800]:", "\t Train time/batch: 1", "\t Train loss/train/total: 11.2800",
       "\t Train throughput/batches_per_sec: 0.2500", "\t Train throughput/device/batches_per_sec: 0.0313",
       "\t Train throughput/device/tokens_per_sec: 8192.0", "\t Train memory/peak_reserved_mem: 45.311"}};
  for (const auto& log : logs) {
    std::vector<TimedLine> lines;
    for (const std::string& line : log) lines.push_back({0, line});
    const auto with_batch = [&](int64_t batch) {
      return read({.reads = "auto", .batch = batch, .tokens = 2048, .ranks = 8, .untimed = true}, lines);
    };
    const Output o = with_batch(128);
    SCOPED_TRACE(log.front());
    ASSERT_EQ(o.steps.size(), 2u);
    EXPECT_EQ(o.steps[1].step, 2);
    EXPECT_EQ(o.steps[0].loss, 11.38);
    EXPECT_EQ(o.steps[1].loss, 11.28);
    EXPECT_EQ(o.steps[1].seconds, 4);
    EXPECT_NEAR(static_cast<double>(*o.summary.peak_bytes), 45.311e9, 1e6);
    EXPECT_EQ(o.read_by.count("lines"), 0u);
  }
}

}  // namespace
}  // namespace isobar::logs
