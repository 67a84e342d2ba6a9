// Learning rate of an optimizer step, as the NERSC ViT sets it.
#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/base/spec.h"

namespace isobar {

/// step counts from 0. Cosine to 0 over train.steps, under a linear warm-up: min((x+1)/warmup, (1+cos(pi
/// x/steps))/2); scaled by sqrt(global_batch / lr_base_batch) when lr_scaling is sqrt.
inline double learning_rate(const TrainSpec& t, int64_t step) {
  const double x = static_cast<double>(step);
  double factor = t.lr_schedule == "cosine"
                      ? 0.5 * (1 + std::cos(std::numbers::pi * x / static_cast<double>(t.steps)))
                      : 1.0;
  if (t.warmup > 0) factor = std::min(factor, (x + 1) / static_cast<double>(t.warmup));
  if (t.lr_scaling == "sqrt")
    factor *= std::sqrt(static_cast<double>(t.global_batch) / static_cast<double>(t.lr_base_batch));
  return t.lr * factor;
}

}  // namespace isobar
