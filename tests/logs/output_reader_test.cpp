// Records in lines as programs print them: the documented form of each reader, and lines of one's own.
#include "bench/logs/output_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "tests/logs/read_output.h"

namespace isobar::logs {
namespace {

// training_log() of megatron/training/training.py
TEST(Readers, Megatron) {
  const char* line =
      " [2025-01-07 11:02:25] iteration %8d/     100 | consumed samples: %12d | elapsed time per iteration "
      "(ms): 1843.2 | throughput per GPU (TFLOP/s/GPU): 301.4 | learning rate: 1.5E-05 | global batch size:  "
      " "
      " 32 | lm loss: 1.083714E+01 | loss scale: 1.0 | grad norm: 9.1 | number of skipped iterations: %d | "
      "number of nan iterations:   0 |";
  std::vector<TimedLine> lines;
  for (int i = 1; i <= 3; ++i) {
    char text[600];
    std::snprintf(text, sizeof text, line, i, 32 * i, i == 2);
    lines.push_back({1.0 * i, text});
  }
  lines.push_back({4,
                   "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | "
                   "reserved: 2048.0 | max reserved: 4096.0"});
  lines.push_back({5,
                   " validation loss at iteration 3 on validation set | lm loss value: 1.07E+01 | lm loss "
                   "PPL: 4.4E+04 |"});
  for (const char* reads : {"auto", "megatron"}) {
    const Output o = read({.reads = reads, .batch = 32}, lines);
    ASSERT_EQ(o.steps.size(), 3u) << reads;
    EXPECT_EQ(o.steps[1].step, 2);
    EXPECT_NEAR(o.steps[1].seconds, 1.8432, 1e-9);
    EXPECT_NEAR(*o.steps[1].loss, 10.83714, 1e-9);
    EXPECT_NEAR(*o.steps[1].lr, 1.5e-5, 1e-12);
    EXPECT_EQ(*o.steps[1].grad_norm, 9.1);
    EXPECT_TRUE(o.steps[1].skipped.value_or(false));
    EXPECT_FALSE(o.steps[2].skipped.value_or(false));
    EXPECT_EQ(o.summary.peak_bytes, int64_t{4096} << 20);
    ASSERT_EQ(o.valid.size(), 1u);
    EXPECT_EQ(o.valid[0].step, 3);
    EXPECT_NEAR(*o.valid[0].loss, 10.7, 1e-9);
    EXPECT_FALSE(o.summary.contradiction);
  }
  const Output wrong = read({.batch = 64}, lines);
  ASSERT_TRUE(wrong.summary.contradiction);
  EXPECT_NE(wrong.summary.contradiction->find("make 32 samples a step, and train.global_batch is 64"),
            std::string::npos)
      << *wrong.summary.contradiction;
}

// MegatronProgressPrinter of NeMo 2, and the bar of NeMo 1, which rounds its step
TEST(Readers, Nemo) {
  const auto two = [](int i) {
    return "[default0]:Training epoch 0, iteration " + std::to_string(i) +
           "/149 | lr: 3e-05 | consumed_samples: " + std::to_string(8 * (i + 1)) +
           " | global_batch_size: 8 | global_step: " + std::to_string(i) + " | reduced_train_loss: 1.2" +
           std::to_string(i) + " | train_step_timing in s: 0.03146 | val_loss: 4.106";
  };
  for (const char* reads : {"auto", "nemo"}) {
    const Output o = read({.reads = reads, .batch = 8}, {{1, two(0)}, {2, two(1)}, {3, two(2)}});
    ASSERT_EQ(o.steps.size(), 3u);
    EXPECT_EQ(o.steps[2].step, 2);
    EXPECT_EQ(o.summary.last_step, 3);  // counts from 0
    EXPECT_NEAR(o.steps[2].seconds, 0.03146, 1e-9);
    EXPECT_NEAR(*o.steps[2].loss, 1.22, 1e-9);
    EXPECT_EQ(o.steps[2].epoch, 0);
    ASSERT_EQ(o.valid.size(), 1u) << "repeated in each line";
    const Output bar =
        read({.reads = reads, .batch = 8},
             {{1,
               "Epoch 0: :   0%|          | 795/900000 [00:28<46:39, reduced_train_loss=3.090, "
               "global_step=7.95e+2, consumed_samples=1.63e+6, train_step_timing in s=41.2]"},
              {2,
               "Epoch 0: :   0%|          | 796/900000 [00:28<46:39, reduced_train_loss=3.080, "
               "global_step=7.96e+2, consumed_samples=1.63e+6, train_step_timing in s=41.3]"}});
    ASSERT_EQ(bar.steps.size(), 2u);
    EXPECT_EQ(bar.steps[1].step, 796);
    EXPECT_NEAR(bar.steps[1].seconds, 41.3, 1e-9);
    EXPECT_NEAR(*bar.steps[1].loss, 3.08, 1e-9);
  }
}

// MetricsProcessor.log(), in colour; its tps are of a device
TEST(Readers, Torchtitan) {
  const auto line = [](int i, const char* word = "") {
    return "[rank0]:[titan] 2025-06-01 10:00:00,000 - root - INFO - " + std::string(word) +
           "\x1b[31mstep: \x1b[32m " + std::to_string(i) +
           "  \x1b[32mloss:  8.1309  \x1b[33mgrad_norm:  1.25  \x1b[34mmemory: 10.00GiB(12.6%)  "
           "\x1b[36mtps: 1,024  \x1b[36mtflops: 411.60  \x1b[35mmfu: 41.62%\x1b[39m";
  };
  const Output o = read({.reads = "torchtitan", .batch = 4, .tokens = 1024, .ranks = 2},
                        {{1, line(1)}, {3, line(2)}, {5, line(3)}, {7, line(4)}, {8, line(4, "validate ")}});
  ASSERT_EQ(o.steps.size(), 3u);  // the first has no time
  EXPECT_NEAR(o.steps[0].seconds, 2, 1e-9);
  EXPECT_NEAR(*o.steps[0].loss, 8.1309, 1e-9);
  EXPECT_EQ(*o.steps[0].grad_norm, 1.25);
  EXPECT_EQ(o.summary.peak_bytes, int64_t{10} << 30);
  EXPECT_EQ(o.valid.size(), 1u);
  EXPECT_FALSE(o.summary.contradiction) << *o.summary.contradiction;  // 1024 * 2 ranks * 2 s / 1024 = 4
  EXPECT_TRUE(read({.reads = "torchtitan", .batch = 16, .tokens = 1024, .ranks = 2},
                   {{1, line(1)}, {3, line(2)}, {5, line(3)}, {7, line(4)}})
                  .summary.contradiction);
}

// deepspeed 0.19: DeepSpeedEngine._report_progress() and ThroughputTimer.stop(), as printed on this form
TEST(Readers, DeepSpeed) {
  const auto lines = [](int step, double at, int skipped) {
    const std::string n = std::to_string(step);
    return std::vector<TimedLine>{
        {at, "[2026-11-26 17:35:46,785] [INFO] [logging.py:123:log_dist] [Rank 0] step=" + n +
                 ", skipped=" + std::to_string(skipped) + ", lr=[0.001], mom=[(0.9, 0.999)]"},
        {at, "[2026-11-26 17:35:46,785] [INFO] [timer.py:264:stop] epoch=0/micro_step=30/global_step=" + n +
                 ", RunningAvgSamplesPerSec=431.38, CurrSamplesPerSec=160.5, MemAllocated=0.5GB, "
                 "MaxMemAllocated=0.75GB"}};
  };
  std::vector<TimedLine> all;
  for (int i = 1; i <= 5; ++i)
    for (const TimedLine& l : lines(5 * i, 0.5 * i, i >= 3 ? 2 : 0)) all.push_back(l);
  for (const char* reads : {"auto", "deepspeed"}) {
    const Output o = read({.reads = reads, .batch = 16}, all);
    ASSERT_EQ(o.steps.size(), 4u);
    EXPECT_EQ(o.steps[0].step, 10);
    EXPECT_NEAR(o.steps[0].seconds, 0.1, 1e-9);
    EXPECT_NEAR(*o.steps[0].lr, 0.001, 1e-12);
    EXPECT_TRUE(o.steps[1].skipped.value_or(false));
    EXPECT_FALSE(o.steps[2].skipped.value_or(false));
    EXPECT_EQ(o.summary.peak_bytes, std::llround(0.75 * 1073741824));
    EXPECT_FALSE(o.summary.contradiction);
    EXPECT_TRUE(read({.reads = reads, .batch = 64}, all).summary.contradiction);
  }
  // PipelineEngine.train_batch()
  const Output pipe = read({.reads = "deepspeed", .batch = 8},
                           {{1, "steps: 10 loss: 2.3012 iter time (s): 0.250 samples/sec: 32.000"},
                            {2, "steps: 20 loss: 2.2012 iter time (s): 0.500 samples/sec: 16.000"}});
  ASSERT_EQ(pipe.steps.size(), 2u);
  EXPECT_NEAR(pipe.steps[1].seconds, 0.5, 1e-9);
  EXPECT_NEAR(*pipe.steps[1].loss, 2.2012, 1e-9);
}

// A program's own lines count from 0 beside DeepSpeed's, which count what is done: sixty steps are sixty.
TEST(Readers, TwoNumberingsOfOneTrainingAreOne) {
  const auto both = [](int first, OutputOptions options) {
    std::vector<TimedLine> all;
    for (int i = first; i < 60; ++i) {
      const std::string done = "[Rank 0] step=" + std::to_string(i + 1) + ", skipped=0, lr=[0.001]";
      all.push_back({0.5 * i, done});
      all.push_back({0.5 * i, "step " + std::to_string(i) + " loss 0." + std::to_string(100 + i)});
    }
    return read(std::move(options), all);
  };
  for (const int first : {0, 40}) {
    const Output o = both(first, {.batch = 16, .from_zero = {"lines"}});
    EXPECT_EQ(o.summary.last_step, 60);
    EXPECT_EQ(o.steps.back().step, 60);
    EXPECT_NEAR(*o.steps.back().loss, 0.159, 1e-12) << "of the same step";
    EXPECT_EQ(o.steps.size(), 59u - static_cast<size_t>(first)) << "but the first, which has no time";
    EXPECT_TRUE(std::none_of(o.summary.notes.begin(), o.summary.notes.end(),
                             [](const std::string& n) { return n.find("left out: ") == 0; }));
  }
  EXPECT_EQ(both(0, {.batch = 16}).summary.last_step, 60);
}

TEST(Readers, StepsAreCountedFromWhereTheProgramCounts) {
  const auto last = [](const std::vector<std::string>& texts, std::set<std::string> from_zero = {}) {
    std::vector<TimedLine> lines;
    for (const std::string& t : texts) lines.push_back({static_cast<double>(lines.size()), t});
    return read({.batch = 16, .from_zero = std::move(from_zero)}, lines).summary.last_step;
  };
  EXPECT_EQ(last({"step 0 loss 1", "step 1 loss 1", "step 2 loss 1"}), 3);
  EXPECT_EQ(last({"step 1 loss 1", "step 2 loss 1", "step 3 loss 1"}), 3);
  EXPECT_EQ(last({"step 9 loss 1", "step 19 loss 1", "step 29 loss 1"}), 30) << "Lightning's, every tenth";
  EXPECT_EQ(last({"step 10 loss 1", "step 20 loss 1", "step 30 loss 1"}), 30);
  EXPECT_EQ(last({"step 40 loss 1", "step 41 loss 1"}, {"lines"}), 42) << "taken up";
  EXPECT_EQ(last({"[Rank 0] step=0, skipped=0, lr=[0.001]", "[Rank 0] step=1, skipped=0, lr=[0.001]",
                  "[Rank 0] step=2, skipped=0, lr=[0.001]"}),
            2)
      << "said before the first step";
}

// transformers 5: the bar, and dicts with numbers as texts (as numbers before); another bar of the evaluation
TEST(Readers, Trainer) {
  const std::vector<TimedLine> lines = {
      {1, "Map: 100%|##########| 512/512 [00:00<00:00, 9000 examples/s]"},
      {2, "  0%|          | 0/64 [00:00<?, ?it/s]"},
      {3, " 16%|#         | 10/64 [00:10<01:30,  1.00s/it]"},
      {3, "{'loss': '2.307', 'grad_norm': '1.25', 'learning_rate': '5e-05', 'epoch': '0.125'}"},
      {4, " 31%|###       | 20/64 [00:20<01:20,  1.00s/it]"},
      {4, "{'loss': 2.1, 'grad_norm': 1.5, 'learning_rate': 4e-05, 'epoch': 0.25}"},
      {4, " 31%|###       | 20/64 [00:20<01:20,  1.00s/it]"},
      {5, " 88%|########  | 7/8 [00:00<00:00, 324.22it/s]\x1b[A"},
      {5, "100%|##########| 8/8 [00:00<00:00, 324.22it/s]\x1b[A"},
      {5, "{'eval_loss': '1.9', 'eval_runtime': '0.5', 'eval_samples_per_second': '2139', 'epoch': '1'}"},
      {6, "100%|##########| 64/64 [00:20<01:20,  1.00s/it]"},
      {6,
       "{'train_runtime': '4.0', 'train_samples_per_second': '128.0', 'train_steps_per_second': '16.0', "
       "'train_loss': '2.2', 'epoch': '1'}"}};
  for (const char* reads : {"auto", "trainer"}) {
    const Output o = read({.reads = reads, .batch = 8}, lines);
    ASSERT_EQ(o.steps.size(), 2u);
    EXPECT_EQ(o.steps[0].step, 20);
    EXPECT_NEAR(o.steps[0].seconds, 0.1, 1e-9);
    EXPECT_EQ(*o.steps[0].loss, 2.307);
    EXPECT_EQ(o.steps[1].step, 64);
    ASSERT_EQ(o.valid.size(), 1u);
    EXPECT_EQ(*o.valid[0].loss, 1.9);
    EXPECT_EQ(o.valid[0].seconds, 0.5);
    EXPECT_FALSE(o.summary.contradiction);
    EXPECT_TRUE(read({.reads = reads, .batch = 16}, lines).summary.contradiction);
  }
}

// The bar of lightning 2.6 counts anew in each epoch, and redraws.
TEST(Readers, Lightning) {
  const auto bar = [](int epoch, int n, const std::string& more) {
    return "Epoch " + std::to_string(epoch) + ":  10%|\xe2\x96\x88         | " + std::to_string(n) +
           "/80 [00:05<00:45,  1.98it/s, v_num=3, train_loss=0.125" + more + "]";
  };
  const Output o =
      read({.reads = "lightning"},
           {{0.5, "Sanity Checking DataLoader 0: 100%|##########| 2/2 [00:00<00:00, 100.00it/s]"},
            {1, bar(0, 8, "")},
            {5, bar(0, 16, "")},
            {6, bar(0, 16, "")},
            {9, bar(0, 80, "")},
            {9.5, "Validation DataLoader 0: 100%|##########| 8/8 [00:00<00:00, 563.96it/s]\x1b[A"},
            {10, bar(0, 80, ", val_loss=0.5")},
            {11, bar(1, 0, ", val_loss=0.5")},
            {14, bar(1, 4, ", val_loss=0.5")}});
  ASSERT_EQ(o.steps.size(), 3u);
  EXPECT_EQ(o.steps[0].step, 16);
  EXPECT_NEAR(o.steps[0].seconds, 0.5, 1e-9);
  EXPECT_EQ(o.steps[1].step, 80);
  EXPECT_EQ(o.steps[2].step, 84);
  EXPECT_EQ(*o.steps[2].loss, 0.125);
  ASSERT_EQ(o.valid.size(), 1u);
  EXPECT_EQ(o.valid[0].step, 80);
}

// NERSC/dl4sci25-dl-at-scale: the log of its README
TEST(Readers, Nersc) {
  const std::string head = "0: 2025-06-20 05:26:39,743 - root - INFO - ";
  const Output o =
      read({.batch = 64}, {{1, head + "Scaffolding memory high watermark: 5.67236328125 GB."},
                           {2, head + " Memory usage after forward pass: 53.37744140625 GB."},
                           {3, head + "Time taken for epoch 1 is 822.578739 sec, avg 46.137832 samples/sec"},
                           {3, head + "  Avg train loss=0.361745"},
                           {4, head + "  Avg val loss=0.281"},
                           {5, head + "  Total validation time: 49.1 sec"},
                           {6, head + "Time taken for epoch 2 is 740.0 sec, avg 51.286486 samples/sec"},
                           {6, head + "  Avg train loss=0.25"}});
  ASSERT_EQ(o.steps.size(), 2u);
  EXPECT_EQ(o.steps[0].step, 593);  // 37952 samples of 64
  EXPECT_EQ(o.steps[0].epoch, 1);
  EXPECT_NEAR(o.steps[0].seconds, 822.578739 / 593, 1e-6);
  EXPECT_NEAR(*o.steps[0].loss, 0.361745, 1e-9);
  EXPECT_EQ(o.steps[1].step, 1186);
  EXPECT_EQ(*o.steps[1].loss, 0.25);
  ASSERT_EQ(o.valid.size(), 1u);
  EXPECT_EQ(o.valid[0].step, 593);
  EXPECT_EQ(o.valid[0].seconds, 49.1);
  EXPECT_NEAR(static_cast<double>(*o.summary.peak_bytes), 53.37744140625 * 1073741824, 1);
  EXPECT_EQ(o.read_by.at("nersc"), 8);
}

// akshatkaush/aurora-jax, LeeTZhi/graphcast, guillaumevernieres/aibalance
TEST(Readers, ThreeFurtherCodesOfWeatherModels) {
  Output o = read({}, {{1, "Step 100 - Multi-GPU training progress (2 GPUs)"},
                       {1, "Saved multi-GPU checkpoint at step 200 (2 GPUs)"},
                       {11, "Step 200 - Multi-GPU training progress (2 GPUs)"}});
  ASSERT_EQ(o.steps.size(), 1u);
  EXPECT_NEAR(o.steps[0].seconds, 0.1, 1e-9);
  o = read({}, {{1, "INFO - Step 500: train_loss=0.5, val_loss=0.6"},
                {2, "INFO - Step 1000: train_loss=0.25, val_loss=0.5"}});
  ASSERT_EQ(o.steps.size(), 1u);
  EXPECT_EQ(o.steps[0].step, 1000);
  EXPECT_EQ(*o.steps[0].loss, 0.25);
  EXPECT_EQ(o.valid.size(), 2u);
  EXPECT_EQ(o.read_by.at("regional-gnn"), 2);
  o = read({}, {{1, "Epoch 10/100 - Train: 0.012, Val: 0.013"},
                {3, "Epoch 20/100 - Train: 0.011, Val: 0.012, Jac: 0.1"}});
  ASSERT_EQ(o.steps.size(), 1u);
  EXPECT_EQ(o.steps[0].step, 20);
  EXPECT_NEAR(o.steps[0].seconds, 0.2, 1e-9);
  EXPECT_EQ(o.valid.size(), 2u);
  EXPECT_EQ(o.read_by.at("ufs"), 2);
}

std::string mlperf(const char* key, double seconds, const nlohmann::json& value,
                   const nlohmann::json& metadata) {
  const nlohmann::json j = {{"namespace", ""},
                            {"time_ms", std::llround(1.7e12 + 1e3 * seconds)},
                            {"event_type", "POINT_IN_TIME"},
                            {"key", key},
                            {"value", value},
                            {"metadata", metadata}};
  return ":::MLLOG " + j.dump();
}

TEST(Readers, Mlperf) {
  const Output o = read({.reads = "mlperf", .batch = 16},
                        {{1, mlperf("global_batch_size", 0, 16, {})},
                         {1, mlperf("block_start", 1, nullptr, {{"samples_count", 0}})},
                         {2, mlperf("tracked_stats", 5, {{"reduced_train_loss", 1.5}}, {{"step", 160}})},
                         {2, mlperf("block_stop", 6, nullptr, {{"samples_count", 160}})},
                         {3, mlperf("eval_accuracy", 8, 2.69, {{"samples_count", 160}})},
                         {4, mlperf("block_start", 9, nullptr, {{"samples_count", 160}})},
                         {5, mlperf("block_stop", 13, nullptr, {{"samples_count", 320}})}});
  ASSERT_EQ(o.steps.size(), 2u);
  EXPECT_EQ(o.steps[0].step, 10);
  EXPECT_NEAR(o.steps[0].seconds, 0.5, 1e-9);
  EXPECT_EQ(*o.steps[0].loss, 1.5);
  EXPECT_EQ(o.steps[1].step, 20);
  EXPECT_NEAR(o.steps[1].seconds, 0.4, 1e-9);
  ASSERT_EQ(o.valid.size(), 1u);
  EXPECT_EQ(*o.valid[0].loss, 2.69);
}

TEST(Readers, Json) {
  const Output o =
      read({.reads = "json", .batch = 32},
           {{1, R"(0: {"global_step": 4, "train/loss": 7.5, "step_time": 0.25, "optim": {"lr": 1e-3}})"},
            {2, R"({"global_step": 5, "train/loss": NaN, "step_time": 0.25})"},
            {2, R"({"global_step": 5, "val_loss": 7.25})"}});
  ASSERT_EQ(o.steps.size(), 2u);
  EXPECT_EQ(o.steps[0].seconds, 0.25);
  EXPECT_EQ(*o.steps[0].loss, 7.5);
  EXPECT_EQ(*o.steps[0].lr, 1e-3);
  EXPECT_TRUE(std::isnan(*o.summary.loss));
  EXPECT_EQ(o.valid.size(), 1u);
}

TEST(Readers, LinesThatNameTheirNumbers) {
  Output o = read({.reads = "lines", .batch = 32},
                  {{1, "loading data, step by step 3"},
                   {1, "step 1 loss 1.25 took 33.5 ms"},
                   {2, "[2025-01-01 10:00:00] [iter 2/1000] loss=0.5, lr=1e-4, 64 samples/s"},
                   {3, "Epoch 1 step: 3 Loss nan time 0.25 s elapsed 900.5 s"},
                   {4, "Saved checkpoint of step 4"}});
  ASSERT_EQ(o.steps.size(), 3u);
  EXPECT_NEAR(o.steps[0].seconds, 0.0335, 1e-9);
  EXPECT_EQ(*o.steps[1].loss, 0.5);
  EXPECT_NEAR(o.steps[1].seconds, 0.5, 1e-9);
  EXPECT_EQ(*o.steps[1].lr, 1e-4);
  EXPECT_NEAR(o.steps[2].seconds, 0.25, 1e-9);
  EXPECT_TRUE(std::isnan(*o.steps[2].loss));
}

// litgpt: an iteration is a batch, and a step adds up the gradients of four.
TEST(Readers, IterationsThatAStepAddsUp) {
  std::vector<TimedLine> lines;
  for (int i = 1; i <= 16; ++i)
    lines.push_back({0.25 * i, "Epoch 1 | iter " + std::to_string(i) + " step " + std::to_string(i / 4) +
                                   " | loss train: 2." + std::to_string(100 + i) +
                                   ", val: n/a | iter time: " + "250.00 ms remaining time: 0:32:11"});
  const Output o = read({.batch = 32}, lines);
  ASSERT_GE(o.steps.size(), 3u);
  EXPECT_EQ(o.summary.last_step, 4);
  EXPECT_NEAR(o.steps.back().seconds, 1, 1e-9);
  EXPECT_NEAR(*o.steps.back().loss, 2.116, 1e-9);
  EXPECT_TRUE(std::any_of(o.summary.notes.begin(), o.summary.notes.end(), [](const std::string& n) {
    return n.find("a step is 4 of its iterations") != std::string::npos;
  }));
  // Steps that begin anew in each epoch, beside iterations that do not: an iteration is a step.
  lines.clear();
  for (int i = 1; i <= 12; ++i)
    lines.push_back({0.25 * i, "step " + std::to_string((i - 1) % 4 + 1) + "/4 iter " + std::to_string(i) +
                                   " loss 0.5 time 0.25 s"});
  const Output again = read({.batch = 32}, lines);
  EXPECT_EQ(again.summary.last_step, 12);
  EXPECT_NEAR(again.steps.back().seconds, 0.25, 1e-9);
}

TEST(Readers, ALossOfTheValidationIsNoneOfTheTraining) {
  const Output o = read({.batch = 32}, {{0, "iter 250: loss 3.5000, time 243.51ms, mfu 30.00%"},
                                        {1, "step 500: train loss 3.2500, val loss 3.7500"},
                                        {2, "iter 500: loss 3.2000, time 243.51ms, mfu 30.00%"},
                                        {3, "step 750 Validation Loss: 3.5"}});
  ASSERT_EQ(o.valid.size(), 2u);
  EXPECT_EQ(*o.valid[0].loss, 3.75);
  EXPECT_EQ(*o.valid[1].loss, 3.5);
  EXPECT_EQ(o.summary.loss, 3.2);
}

TEST(Readers, TimesThatAreNoneOfAStep) {
  const auto of = [](const std::string& words, double growth, const std::string& unit) {
    std::vector<TimedLine> lines;
    for (int i = 1; i <= 8; ++i)
      lines.push_back({1.7e9 + 2.0 * i, "step " + std::to_string(i) + " loss 2.5 " + words + " " +
                                            std::to_string(2 + growth * i) + unit});
    return read({.batch = 32}, lines);
  };
  EXPECT_NEAR(of("time", 0, " s").steps.back().seconds, 2, 1e-9);
  EXPECT_FALSE(of("time", 0, " s").summary.contradiction);
  EXPECT_NEAR(of("elapsed time", 2, " s").steps.back().seconds, 2, 1e-6) << "by the clock";
  const auto grows = of("time", 2, " s").summary.contradiction;
  ASSERT_TRUE(grows);
  EXPECT_NEAR(of("step_time", 0, "us").steps.back().seconds, 2e-6, 1e-12);
  // Ten steps' time beside a clock that shows a tenth of it for each
  std::vector<TimedLine> ten;
  for (int i = 1; i <= 8; ++i)
    ten.push_back({1.7e9 + 25.0 * i, "step " + std::to_string(10 * i) + " loss 2.5 time 25.0 s"});
  EXPECT_TRUE(read({.batch = 32}, ten).summary.contradiction);
}

TEST(Readers, ALineAnEpochOfAProgramThatNamesNoSteps) {
  const Output o = read({}, {{0, "Epoch 1/10 train_loss: 0.5 val_loss: 0.6 time: 33.1s"},
                             {33, "Epoch 2/10 train_loss: 0.4 val_loss: 0.5 time: 33.1s"}});
  ASSERT_EQ(o.steps.size(), 2u);
  EXPECT_EQ(o.steps[1].step, 2);
  EXPECT_NEAR(o.steps[1].seconds, 33.1, 1e-9);
  EXPECT_EQ(o.valid.size(), 2u);
}

TEST(Readers, StepsThatBeginAnewWithEachEpochAreCountedOn) {
  std::vector<TimedLine> lines;
  for (int epoch = 1; epoch <= 3; ++epoch)
    for (int i = 100; i <= 600; i += 100)
      lines.push_back({600.0 * epoch + i, "Epoch [" + std::to_string(epoch) + "/3], Step [" +
                                              std::to_string(i) + "/600], Loss: 0.5"});
  const Output o = read({.batch = 32}, lines);
  EXPECT_EQ(o.summary.last_step, 1800);
  ASSERT_EQ(o.steps.size(), 17u) << "but the first, which has no time";
  for (const records::StepRecord& s : o.steps) EXPECT_NEAR(s.seconds, 1, 1e-9) << s.step;
}

TEST(Readers, AUnitIsNotTheNextNumbersKey) {
  const Output o = read({.batch = 64, .tokens = 1024}, {{0, "step 1 loss 2.5 tok/s 65,536"},
                                                        {1, "step 2 loss 2.25 (0.25 s/step)"},
                                                        {2, "step: 3, loss: 2.0, steps_per_second: 4.0"},
                                                        {3, "Epoch 1 validation loss 2.75"}});
  ASSERT_EQ(o.steps.size(), 3u);
  EXPECT_NEAR(o.steps[0].seconds, 1, 1e-9);
  EXPECT_EQ(*o.steps[0].loss, 2.5);
  EXPECT_NEAR(o.steps[1].seconds, 0.25, 1e-9);
  EXPECT_NEAR(o.steps[2].seconds, 0.25, 1e-9);
  ASSERT_EQ(o.valid.size(), 1u);
  EXPECT_EQ(*o.valid[0].loss, 2.75);
}

// Loguru's name:function:line; orbit of TensorFlow; MindSpore; a dict behind a step; tput's sgr0 and a link
// of rich
TEST(Readers, SourcesUnitsAsKeysAndEscapes) {
  for (const char* text :
       {"2025-01-01 12:00:00.123 | INFO     | trainer:step:57 - step 10 loss 2.5 took 250 ms",
        R"(train | step:     10 | steps/sec:    4.0 | output: {"loss": 2.5})",
        "epoch: 1 step: 10, loss is 2.5, per step time: 250.000 ms",
        "Step 10: {'loss': 2.5, 'steps_per_second': 4.0}", "step 10 loss 2.5 ms/step 250.00",
        "\x1b(B\x1b[mstep 10 \x1b]8;id=1;file:///a/b.py\x1b\\b.py\x1b]8;;\x1b\\ loss 2.5 250 ms"}) {
    const Output o = read({.reads = "auto", .batch = 32}, {{0, text}});
    ASSERT_EQ(o.steps.size(), 1u) << text;
    EXPECT_EQ(o.steps[0].step, 10) << text;
    EXPECT_EQ(o.steps[0].seconds, 0.25) << text;
    EXPECT_EQ(*o.steps[0].loss, 2.5) << text;
  }
}

TEST(Readers, TimesHaveTheirUnits) {
  const auto seconds = [](const std::string& time) {
    return read({.reads = "auto", .untimed = true}, {{0, "step 1_000 loss 2.5 " + time}}).steps.at(0);
  };
  for (const auto& [text, expected] : {std::pair{"step_time 250 \xc2\xb5s", 250e-6},
                                       {"step_time: 250\xce\xbcs", 250e-6},
                                       {"step_time 250 msecs", 0.25},
                                       {"step_time 250 milliseconds", 0.25},
                                       {"iter_time 250 (ms)", 0.25},
                                       {"step_time 250 ms/step", 0.25},
                                       {"step_time 0.25 min", 15},
                                       {"step_time 0.25 lr 1e-4", 0.25},
                                       {"step_time 0.25 tok/s 1_234_567", 0.25},
                                       {"step_time 0.25 (avg 0.3)", 0.25},
                                       {"step_time 0.25/0.3", 0.25},
                                       {"step_time: 0.25s/iter", 0.25},
                                       {"step_time=250ms|", 0.25},
                                       {"mfu 40 tok/s 65,536 step_time 0.25", 0.25}})
    EXPECT_NEAR(seconds(text).seconds, expected, 1e-9) << text;
  for (const char* text : {"step_time 1m02s", "step_time 1:02.5", "step_time 00:01:02"})
    EXPECT_EQ(seconds(text).seconds, 0) << text << ": by the clock";
  EXPECT_EQ(seconds("").step, 1000);
  // The rate of a line of key and value is that of its key.
  const Output o = read({.batch = 64, .tokens = 1024, .untimed = true},
                        {{0, "step 1 norm 0.5 tok/s 65,536 mfu 40.0"}, {1, "step 2 throughput 65536 tok/s"}});
  for (const records::StepRecord& s : o.steps) EXPECT_NEAR(s.seconds, 1, 1e-9);
}

TEST(Readers, DecimalCommasAreNoThousands) {
  const Output o = read({.batch = 32}, {{0, "step 1,234 loss 2,5123 time 0,250 s"}});
  ASSERT_EQ(o.steps.size(), 1u);
  EXPECT_EQ(o.steps[0].step, 1234);
  EXPECT_NEAR(*o.steps[0].loss, 2.5123, 1e-12);
  EXPECT_NEAR(o.steps[0].seconds, 0.25, 1e-12);
}

// nanotron, picotron: 348K tokens a second are 348000
TEST(Readers, LettersMultiplyNumbers) {
  const Output o = read({.batch = 64, .tokens = 1000},
                        {{0, "iteration: 1 / 100 | tokens_per_sec: 32K | lm_loss: 10.1 | lr: 3e-05"},
                         {1, "Step: 2 | Loss: 10.0 | Tokens/s: 0.064M | Memory usage: 33.12GB"},
                         {2, "iteration: 3 / 100 | elapsed_time_per_iteration_ms: 3.01K | lm_loss: 9.9"}});
  ASSERT_EQ(o.steps.size(), 3u);
  EXPECT_NEAR(o.steps[0].seconds, 2, 1e-9);
  EXPECT_NEAR(o.steps[1].seconds, 1, 1e-9);
  EXPECT_NEAR(o.steps[2].seconds, 3.01, 1e-9);
}

TEST(Readers, ALineOfOnesOwn) {
  Output o = read({.reads = "step {step} * loss={loss} * {ms} ms"},
                  {{0, "step two of three loss=1 in 5 ms"},
                   {1, "node01: INFO step 12 of 40 loss=1.5e-1 in 250.5 ms on rank 0"}});
  ASSERT_EQ(o.steps.size(), 1u);
  EXPECT_EQ(o.steps[0].step, 12);
  EXPECT_NEAR(o.steps[0].seconds, 0.2505, 1e-12);
  EXPECT_NEAR(*o.steps[0].loss, 0.15, 1e-12);
  o = read({.reads = "[{step}] {tokens_per_s} tok/s", .batch = 32, .tokens = 1024},
           {{0, "[3] 65,536 tok/s"}});
  EXPECT_NEAR(o.steps.at(0).seconds, 0.5, 1e-12);
  o = read({.reads = "{step}: {samples_per_s} img/s\nvalid {valid_loss}", .batch = 32},
           {{0, "7: 64 img/s"}, {1, "valid 0.25"}});
  EXPECT_NEAR(o.steps.at(0).seconds, 0.5, 1e-12);
  EXPECT_EQ(*o.valid.at(0).loss, 0.25);
  for (const char* reads : {R"(it=(?<step>\d+) .*(loss|err): (?P<loss>[-+\d.e]+).* (?:dt) (?<ms>[0-9.]+))",
                            R"(it=(?<step>[0-9]+).*: (?<loss>[^ ]+) .*dt (?<ms>[0-9.]+)ms)"}) {
    o = read({.reads = reads}, {{1, "x it=7 y err: -2.5e-1 z dt 12.5ms"}, {2, "it=x"}});
    ASSERT_EQ(o.steps.size(), 1u) << reads;
    EXPECT_EQ(o.steps[0].step, 7);
    EXPECT_EQ(*o.steps[0].loss, -0.25);
    EXPECT_NEAR(o.steps[0].seconds, 0.0125, 1e-12);
  }
}

TEST(Readers, UnknownNamesAndExpressionsAreRefused) {
  for (const char* reads : {"megatrom", "step {step} {speed}", "(?<stp>[0-9]+)", "(?<step>[0-9]+"})
    EXPECT_THROW(OutputReader({.reads = reads}), ConfigError) << reads;
  EXPECT_NO_THROW(OutputReader({.reads = "tqdm\ncsv:logs"}));
}

// Lines that were written in one moment are read together: none of their steps took no time.
TEST(Readers, StepsOfOneMomentShareTheTimeSinceTheStepBefore) {
  const Output o =
      read({.reads = "s {step}"}, {{1, "s 1"}, {2, "s 2"}, {2, "s 3"}, {2, "s 4"}, {2, "s 6"}, {3, "s 7"}});
  ASSERT_EQ(o.steps.size(), 5u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(o.steps[i].seconds, 0.2, 1e-12) << i;
  EXPECT_NEAR(o.steps[4].seconds, 1, 1e-12);
}

TEST(Readers, LyingLinesAreLeftOutOrContradicted) {
  const Output o = read({.reads = "s {step} {seconds} s loss {loss}"}, {{1, "s 5 0.5 s loss 1"},
                                                                        {2, "s 3 0.5 s loss 2"},
                                                                        {3, "s -4 0.5 s loss 3"},
                                                                        {4, "s 1e300 1 s loss 3"},
                                                                        {5, "s 6 inf s loss 2"},
                                                                        {6, std::string("s 7 0.5\0 s", 10)},
                                                                        {7, "s 8 -1 s loss 0.5"},
                                                                        {8, "\xff\xfe s 9 0.5 s loss 0.25"}});
  ASSERT_EQ(o.steps.size(), 4u);
  for (const records::StepRecord& s : o.steps) EXPECT_GT(s.seconds, 0);
  EXPECT_EQ(o.steps.back().step, 9);
  EXPECT_EQ(*o.summary.loss, 0.25);
  bool said = false;
  for (const std::string& note : o.summary.notes) said |= note.find("before the newest") != std::string::npos;
  EXPECT_TRUE(said);
  // A unit that cannot be: 100 s of steps in 10 s
  std::vector<TimedLine> lines;
  for (int i = 1; i <= 11; ++i) lines.push_back({1000.0 + i, "s " + std::to_string(i) + " 10 s loss 1"});
  const Output unit = read({.reads = "s {step} {seconds} s loss {loss}", .begun = 1000}, lines);
  ASSERT_TRUE(unit.summary.contradiction);
  EXPECT_NE(unit.summary.contradiction->find("unit"), std::string::npos);
  // 1 s of steps in 10: not wrong, since a program need not time all that it does, but said
  for (TimedLine& line : lines) line.text.replace(line.text.find("10 s loss"), 2, "0.1");
  const Output outside = read({.reads = "s {step} {seconds} s loss {loss}", .begun = 1000}, lines);
  EXPECT_FALSE(outside.summary.contradiction);
  EXPECT_NE(outside.summary.notes.back().find("10 s went by, of which its steps' times make 1 s"),
            std::string::npos)
      << outside.summary.notes.back();
  for (TimedLine& line : lines) line.text.replace(line.text.find("0.1 s loss"), 3, "0.9");
  EXPECT_EQ(read({.reads = "s {step} {seconds} s loss {loss}", .begun = 1000}, lines).summary.notes.size(),
            1u);
}

}  // namespace
}  // namespace isobar::logs
