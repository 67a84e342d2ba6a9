#include "model/inference/jacobian.h"

#include <algorithm>

#include "model/inference/one_rank.h"
#include "model/nets/build.h"
#include "model/nets/loss_settings.h"

namespace isobar::inference {
namespace {

RunSpec for_rows(const RunSpec& trained, int64_t batch) {
  RunSpec s = on_one_rank(trained, batch);
  s.train.loss = LossKind::mse;  // emitted as a loss of the prediction itself
  return s;
}

// The gradient of its loss by the prediction is what it is projected on.
plan::Plan projected(plan::Plan plan) {
  nets::change_loss(plan, LossKind::projection);
  return plan;
}

plan::ImageAttrs patches_of(const plan::Plan& plan) {
  const auto op = std::find_if(plan.ops.begin(), plan.ops.end(),
                               [](const plan::Op& o) { return o.kind == plan::OpKind::patch_gather; });
  return op == plan.ops.end() ? plan::ImageAttrs{} : op->as<plan::ImageAttrs>();
}

}  // namespace

Jacobian::Jacobian(const RunSpec& spec, int64_t batch, int threads)
    : spec_(for_rows(spec, batch)),
      plan_(projected(nets::build_plan(spec_, 0, cpu_workspace(threads), plan::PlanUse::input_gradient))),
      program_(plan::needed_for(plan_, plan::link(plan_, plan_.train, true), {plan_.input_gradient})),
      arena_(plan_.memory.arena),
      backend_(plan_, arena_.data()),
      patches_(patches_of(plan_)) {
  nets::require_kernels(spec_, plan_);
  backend_.load_constants();
}

void Jacobian::weights_changed() {
  run_in_order(plan_, plan::link(plan_, plan_.init, true), backend_);
}

// The order of parameters in a one-rank plan does not depend on the batch.
void Jacobian::take_weights(const Forecaster& net) {
  std::copy_n(net.weights(), plan_.params_all.count, weights());
  weights_changed();
}

int64_t Jacobian::sample(const char* tensor) const {
  return std::find_if(plan_.batch.begin(), plan_.batch.end(),
                      [&](const plan::BatchTensor& t) { return t.name == tensor; })
      ->sample;
}

std::vector<float> Jacobian::rows(const float* input, const std::vector<int64_t>& which) {
  std::vector<float> out(which.size() * static_cast<size_t>(inputs()));
  const auto all = static_cast<int64_t>(which.size());
  for (int64_t first = 0; first < all; first += spec_.micro_batch())
    pass(input, which.data() + first, std::min(spec_.micro_batch(), all - first),
         out.data() + first * inputs());
  return out;
}

void Jacobian::pass(const float* input, const int64_t* which, int64_t count, float* rows) {
  const int64_t batch = spec_.micro_batch(), out = outputs();
  backend_.on_fetch([&](int32_t, const BatchPlaces& to) {
    float* const inputs_at = to.floats("input");
    float* const seeds = to.floats("target");
    std::fill_n(seeds, batch * out, 0.0f);
    for (int64_t b = 0; b < batch; ++b) {
      std::copy_n(input, inputs(), inputs_at + b * inputs());
      // Undo the loss's mean over batch and outputs.
      if (b < count) seeds[b * out + which[b]] = static_cast<float>(batch * out);
    }
  });
  run_in_order(plan_, program_, backend_);
  for (int64_t b = 0; b < count; ++b) take(b, rows + b * inputs());
}

// A patch has columns (c, row, col), like the input of a stride-p convolution.
void Jacobian::take(int64_t b, float* row) const {
  const float* from = floats(plan_.input_gradient) + b * inputs();
  if (patches_.patch == 0) {
    std::copy_n(from, inputs(), row);
    return;
  }
  const int64_t C = patches_.channels, H = patches_.height, W = patches_.width, p = patches_.patch;
  for (int64_t c = 0; c < C; ++c)
    for (int64_t y = 0; y < H; ++y)
      for (int64_t x = 0; x < W; ++x)
        row[(c * H + y) * W + x] = from[(y / p * (W / p) + x / p) * C * p * p + (c * p + y % p) * p + x % p];
}

}  // namespace isobar::inference
