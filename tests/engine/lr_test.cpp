// Learning rates against closed forms, and the plateau schedule against PyTorch.
#include <gtest/gtest.h>

#include <cmath>

#include "model/inference/schedule_lr.h"

namespace isobar::engine {
namespace {

TEST(LearningRate, StepFallsByGammaEveryStepSize) {
  TrainSpec t;
  t.lr = 0.3;
  t.lr_schedule = LrSchedule::step;
  t.lr_step_size = 7;
  t.lr_gamma = 0.5;
  for (int64_t step = 0; step < 50; ++step)
    EXPECT_DOUBLE_EQ(inference::learning_rate(t, step),
                     0.3 * std::pow(0.5, std::floor(static_cast<double>(step) / 7)));
  t.warmup = 10;
  EXPECT_DOUBLE_EQ(inference::learning_rate(t, 0), 0.03);
  EXPECT_DOUBLE_EQ(inference::learning_rate(t, 6), 0.21);
  EXPECT_DOUBLE_EQ(inference::learning_rate(t, 7), 0.15);  // the lower of the two
}

TEST(LearningRate, CosineEndsAtItsFloorAndStaysThere) {
  TrainSpec t;
  t.lr = 0.4, t.lr_min = 0.1, t.steps = 100, t.lr_steps = 40;
  EXPECT_DOUBLE_EQ(inference::learning_rate(t, 0), 0.4);
  EXPECT_NEAR(inference::learning_rate(t, 10), 0.1 + 0.3 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(inference::learning_rate(t, 20), 0.25, 1e-15);
  for (const int64_t step : {40, 41, 99}) EXPECT_NEAR(inference::learning_rate(t, step), 0.1, 1e-15);
}

TEST(LearningRate, GrowsWithTheBatchOrItsRoot) {
  TrainSpec t;
  t.lr = 0.1, t.global_batch = 64, t.lr_base_batch = 16;
  EXPECT_DOUBLE_EQ(inference::base_learning_rate(t), 0.1);
  t.lr_scaling = LrScaling::sqrt;
  EXPECT_DOUBLE_EQ(inference::base_learning_rate(t), 0.2);
  t.lr_scaling = LrScaling::linear;
  EXPECT_DOUBLE_EQ(inference::base_learning_rate(t), 0.4);
}

// Output of torch.optim.lr_scheduler.ReduceLROnPlateau (PyTorch 2.15) on these losses, lr 0.4, factor 0.5
TEST(LearningRate, PlateauIsPyTorchs) {
  const double losses[] = {1.0,    0.9,   0.895, 0.894, 0.893, 0.9,  0.95, 0.8,  0.81, 0.799,
                           0.7995, 0.805, 0.81,  0.7,   0.71,  0.72, 0.73, 0.74, 0.75, 0.76,
                           0.77,   0.78,  0.79,  0.8,   0.6,   0.61, 0.62, 0.63, 0.64, 0.65};
  struct Case {
    int64_t patience, cooldown;
    double threshold, min;
    std::vector<double> rates;
  };
  const Case cases[] = {
      {2, 0, 1e-4, 0, {.4, .4, .4, .4, .4,  .4,  .4,  .4,   .4,   .4,   .4,   .4,   .2,    .2,    .2,
                       .2, .1, .1, .1, .05, .05, .05, .025, .025, .025, .025, .025, .0125, .0125, .0125}},
      {2, 2, 1e-2, 0, {.4, .4,  .4,  .4,  .2,  .2,  .2,   .2,   .2,   .2,   .1,   .1,   .1,    .1,    .1,
                       .1, .05, .05, .05, .05, .05, .025, .025, .025, .025, .025, .025, .0125, .0125, .0125}},
      {0, 1, 1e-4, 0.02, {.4,  .4,  .4,  .4,  .4,  .2,  .2,  .2,  .1,  .1,  .05, .05, .025, .025, .02,
                          .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02,  .02,  .02}}};
  for (const Case& c : cases) {
    TrainSpec t;
    t.lr = 0.4;
    t.lr_schedule = LrSchedule::plateau;
    t.lr_gamma = 0.5;
    t.lr_patience = c.patience;
    t.lr_cooldown = c.cooldown;
    t.lr_threshold = c.threshold;
    t.lr_min = c.min;
    inference::Plateau plateau;
    EXPECT_EQ(inference::learning_rate(t, 0, plateau), 0.4);
    for (size_t i = 0; i < std::size(losses); ++i) {
      plateau.observe(t, losses[i]);
      EXPECT_DOUBLE_EQ(inference::learning_rate(t, 3, plateau), c.rates.at(i)) << "after loss " << i;
    }
  }
}

}  // namespace
}  // namespace isobar::engine
