// The learning rate of an optimizer step.
//
//   constant   lr
//   cosine     to lr_min over lr_steps (default: train.steps), like the NERSC ViT
//   step       times lr_gamma after every lr_step_size optimizer steps (torch.optim.lr_scheduler.StepLR)
//   plateau    times lr_gamma when the validation loss no longer falls (ReduceLROnPlateau)
//
//   Plateau plateau;                                    // kept in checkpoints
//   plateau.observe(train, validation_loss);            // after every validation
//   const double lr = learning_rate(train, step, plateau);
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "model/base/spec/spec.h"

namespace isobar::inference {

/// lr, scaled by global_batch / lr_base_batch (linear: Goyal 2017) or its square root (sqrt).
inline double base_learning_rate(const TrainSpec& t) {
  const double larger = static_cast<double>(t.global_batch) / static_cast<double>(t.lr_base_batch);
  return t.lr_scaling == LrScaling::sqrt     ? t.lr * std::sqrt(larger)
         : t.lr_scaling == LrScaling::linear ? t.lr * larger
                                             : t.lr;
}

/// State of torch.optim.lr_scheduler.ReduceLROnPlateau (mode min, threshold_mode rel, eps 1e-8), from the
/// validations after the first step. An improvement is a loss below best * (1 - lr_threshold); after more
/// than lr_patience validations without one, the rate is multiplied by lr_gamma, down to lr_min, and the next
/// lr_cooldown validations are ignored.
struct Plateau {
  double best = std::numeric_limits<double>::infinity();
  int64_t bad = 0, cooldown = 0;  // validations without improvement; validations left to ignore
  double factor = 1;              // of the base learning rate

  void observe(const TrainSpec& t, double loss) {
    if (loss < best * (1 - t.lr_threshold)) {
      best = loss;
      bad = 0;
    } else {
      ++bad;
    }
    if (cooldown > 0) {
      --cooldown;
      bad = 0;
    }
    if (bad <= t.lr_patience) return;
    const double base = base_learning_rate(t), next = std::max(base * factor * t.lr_gamma, t.lr_min);
    if (base * factor - next > 1e-8) factor = next / base;
    cooldown = t.lr_cooldown;
    bad = 0;
  }
};

/// step counts from 0. Cosine: lr_min + (lr - lr_min) (1+cos(pi x/steps))/2. Linear warm-up:
/// min((x+1)/warmup, factor).
inline double learning_rate(const TrainSpec& t, int64_t step, const Plateau& plateau = {}) {
  const double x = static_cast<double>(step);
  double factor = 1;
  if (t.lr_schedule == LrSchedule::cosine) {
    const auto length = static_cast<double>(t.lr_steps > 0 ? t.lr_steps : t.steps);
    const double floor = t.lr_min / base_learning_rate(t);
    factor = floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, x / length)));
  } else if (t.lr_schedule == LrSchedule::step) {
    const int64_t cuts = step / t.lr_step_size;
    factor = std::pow(t.lr_gamma, static_cast<double>(cuts));
  } else if (t.lr_schedule == LrSchedule::plateau) {
    factor = plateau.factor;
  }
  if (t.warmup > 0) factor = std::min(factor, (x + 1) / static_cast<double>(t.warmup));
  return base_learning_rate(t) * factor;
}

}  // namespace isobar::inference
