// Steps in lines as programs print them: their documented forms, and a user's own.
#include "bench/guest/output.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/base/error.h"

namespace isobar {
namespace {

OutputReader reader(const std::string& reads) {
  return {reads, 32, 1024, "run.yaml"};
}

TEST(GuestOutput, FormsAreFoundByLine) {
  OutputReader all = reader("auto");
  EXPECT_FALSE(all.line("loading data, step by step", 0));
  // Megatron-LM, training_log()
  auto s = all.line(
      " [2025-01-07 11:02:25] iteration        1/     100 | consumed samples:           32 | elapsed time "
      "per "
      "iteration (ms): 1843.2 | throughput per GPU (TFLOP/s/GPU): 301.4 | learning rate: 1.0E-05 | global "
      "batch "
      "size:    32 | lm loss: 1.083714E+01 | loss scale: 1.0 | grad norm: 9.1 |",
      1);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->step, 1);
  EXPECT_NEAR(*s->seconds, 1.8432, 1e-9);
  EXPECT_NEAR(*s->loss, 10.83714, 1e-9);
  // torchtitan, MetricsProcessor.log(): its tps is per device, so time is taken between lines
  s = all.line(
      "[titan] 2025-06-01 10:00:00,000 - root - INFO - step:  2  loss:  8.1309  grad_norm:  1.2  memory: "
      "10.00GiB(12.6%)  tps: 7,105  tflops: 411.60  mfu: 41.62%",
      3.5);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->step, 2);
  EXPECT_NEAR(*s->seconds, 2.5, 1e-9);
  EXPECT_NEAR(*s->loss, 8.1309, 1e-9);
  // JSON lines
  s = all.line(R"({"global_step": 4, "train_loss": 7.5, "step_time": 0.25})", 9);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->step, 4);
  EXPECT_EQ(*s->seconds, 0.25);
  EXPECT_EQ(*s->loss, 7.5);
  // Lightning's progress bar
  s = all.line(
      "Epoch 0:  10%|\xe2\x96\x88         | 8/80 [00:05<00:45,  1.98it/s, v_num=3, train_loss=0.125]", 11);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->step, 8);
  EXPECT_NEAR(*s->seconds, 0.5, 1e-9);
  EXPECT_EQ(*s->loss, 0.125);
  // Drawn again, and another rank's
  EXPECT_FALSE(all.line("Epoch 0:  10%|\xe2\x96\x88         | 8/80 [00:05<00:45,  1.98it/s]", 12));
}

// The Trainer prints the loss on a line of its own, before the bar that counts its step.
TEST(GuestOutput, TheTrainersLossIsTheNextStepsOne) {
  OutputReader bars = reader("tqdm");
  EXPECT_FALSE(bars.line("{'loss': 2.3079, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.1}", 0));
  auto s = bars.line(" 10%|#         | 10/100 [00:10<01:30,  1.00s/it]", 1);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->step, 10);
  EXPECT_EQ(*s->loss, 2.3079);
  s = bars.line(" 20%|##        | 20/100 [00:20<01:20,  1.00s/it]", 11);
  ASSERT_TRUE(s);
  EXPECT_FALSE(s->loss);
  EXPECT_NEAR(*s->seconds, 1, 1e-9);
}

TEST(GuestOutput, ALineOfOnesOwn) {
  OutputReader own = reader("step {step} * loss={loss} * {ms} ms");
  EXPECT_FALSE(own.line("step two of three loss=1 in 5 ms", 0));
  auto s = own.line("INFO step 12 of 40 loss=1.5e-1 in 250.5 ms on rank 0", 1);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->step, 12);
  EXPECT_NEAR(*s->seconds, 0.2505, 1e-12);
  EXPECT_NEAR(*s->loss, 0.15, 1e-12);
  OutputReader rate = reader("[{step}] {tokens_per_s} tok/s");
  s = rate.line("[3] 65,536 tok/s", 0);
  ASSERT_TRUE(s);
  EXPECT_NEAR(*s->seconds, 0.5, 1e-12);
  OutputReader samples = reader("{step}: {samples_per_s} img/s");
  EXPECT_NEAR(*samples.line("7: 64 img/s", 0)->seconds, 0.5, 1e-12);
}

TEST(GuestOutput, ALossThatIsNoNumberIsOne) {
  OutputReader own = reader("step {step} loss {loss} {ms} ms");
  EXPECT_TRUE(std::isnan(*own.line("step 1 loss nan 5 ms", 0)->loss));
}

TEST(GuestOutput, UnknownFormsAndNumbersAreRefused) {
  EXPECT_THROW(reader("megatrom"), ConfigError);
  EXPECT_THROW(reader("step {step} {speed}"), ConfigError);
  EXPECT_NO_THROW(reader("tqdm"));
}

}  // namespace
}  // namespace isobar
