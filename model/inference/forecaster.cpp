#include "model/inference/forecaster.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "model/backend/cpu/isa/kernels.h"
#include "model/base/error.h"
#include "model/inference/channel_loss.h"
#include "model/inference/weights/open_checkpoint.h"
#include "model/inference/weights/params.h"
#include "model/inference/weights/trained_weights.h"
#include "model/nets/build.h"
#include "model/nets/graph/regional_gnn.h"
#include "model/nets/points.h"
#include "model/plan/ops/operands.h"

namespace isobar::inference {
namespace {

// The net on one rank, in its own precision and with its own loss
RunSpec alone(const RunSpec& trained, int64_t batch) {
  RunSpec s = on_one_rank(trained, batch);
  s.train.loss = trained.train.loss;
  s.train.loss_weights = trained.train.loss_weights;
  s.train.latitude_weights = trained.train.latitude_weights;
  s.train.latitudes = nets::loss_latitudes(s, trained.train.latitudes);
  s.train.intense_above = trained.train.intense_above;
  s.train.intense_weights = trained.train.intense_weights;
  s.train.huber_delta = trained.train.huber_delta;
  s.policy.amp = trained.policy.amp;
  if (trained.masks_targets()) {  // the mask comes from files
    s.data = trained.data;
    if (s.data.train.empty()) s.data.train = s.data.valid;
  }
  return s;
}

RunSpec with_loss_of(const CheckpointState& state) {
  RunSpec s = state.spec;
  s.train = with_channel_loss(s, state.channels.targets);
  return s;
}

const plan::Op& loss_of(const plan::Plan& plan, const RunSpec& spec) {
  const auto at = std::find_if(plan.ops.begin(), plan.ops.end(), [](const plan::Op& op) {
    return op.kind == plan::OpKind::loss_sums || op.kind == plan::OpKind::cross_entropy;
  });
  if (at == plan.ops.end() || spec.net.words())
    throw ConfigError(
        "", "net.kind", spec.net.kind() + " predicts words, and forecasts are numbers",
        "take the checkpoint of a net of fields or numbers, or continue a text: isobar generate");
  return *at;
}

const plan::View& prediction_of(const plan::Op& loss) {
  return loss.kind == plan::OpKind::loss_sums ? plan::in<plan::OpKind::loss_sums>(loss, "pred")
                                              : plan::in<plan::OpKind::cross_entropy>(loss, "logits");
}

// Patch layout of the prediction; logits have no positions
plan::ImageAttrs patches_of_prediction(const plan::Op& loss) {
  if (loss.kind == plan::OpKind::loss_sums) return loss.as<plan::LossAttrs>().image;
  const auto& a = loss.as<plan::CrossEntropyAttrs>();
  return {.batch = a.rows, .channels = a.cols, .height = 1, .width = 1, .patch = 1};
}

float number_at(const std::byte* p, DType t, int64_t i) {
  if (t == DType::bf16) return to_float(reinterpret_cast<const bf16*>(p)[i]);
  if (t == DType::f16) return to_float(reinterpret_cast<const f16*>(p)[i]);
  return reinterpret_cast<const float*>(p)[i];
}

}  // namespace

Forecaster::Forecaster(const RunSpec& spec, int64_t batch, int threads)
    : spec_(alone(spec, batch)),
      plan_(nets::build_plan(spec_, 0, cpu_workspace(threads))),
      predicted_(prediction_of(loss_of(plan_, spec_))),
      patches_(patches_of_prediction(loss_of(plan_, spec_))),
      eval_(in_order(plan_, plan::link(plan_, plan_.eval, true), {predicted_, plan_.metrics})),
      predict_(in_order(plan_, plan::needed_for(plan_, eval_.program, {predicted_}), {predicted_})),
      arena_(plan_.memory.arena),
      backend_(plan_, arena_.data()) {
  backend_.load_constants();
}

Forecaster::Forecaster(const std::filesystem::path& checkpoint, const CheckpointState& state, int64_t batch,
                       int threads)
    : Forecaster(with_loss_of(state), batch, threads) {
  Meeting one;
  one.threads = threads;
  TrainedWeights(OpenCheckpoint(checkpoint, CheckpointPart::weights, one))
      .load(plan_, floats(plan_.params_all));
  run_in_order(plan_, plan::link(plan_, plan_.init, true), backend_);
}

// The order of parameters in a one-rank plan does not depend on the batch.
Forecaster::Forecaster(const Forecaster& same, int64_t batch, int threads)
    : Forecaster(same.spec_, batch, threads) {
  std::copy_n(same.floats(same.plan_.params_all), plan_.params_all.count, floats(plan_.params_all));
  run_in_order(plan_, plan::link(plan_, plan_.init, true), backend_);
}

Forecaster::Shape Forecaster::input() const {
  const auto at = std::find_if(plan_.batch.begin(), plan_.batch.end(),
                               [](const plan::BatchTensor& t) { return t.role == plan::BatchRole::input; });
  const Shape out = output();
  return {at->sample / (out.height * out.width), out.height, out.width};
}

std::optional<GridBox> Forecaster::region() const {
  return nets::predicted_region(spec_.net);
}

Forecaster::Shape Forecaster::output() const {
  if (!region()) return {patches_.channels, patches_.height, patches_.width};
  const Images& grid = *spec_.net.images();
  return {patches_.channels, grid.img_height, grid.img_width};
}

void Forecaster::operator()(const float* input, const float* target, float* prediction, const float* mask) {
  if (reads_mask() != (mask != nullptr))
    throw std::logic_error("Forecaster: the net was trained " + std::string(mask ? "without" : "with") +
                           " a mask of what counts");
  compute(
      eval_, [&](float* to, int64_t count) { std::copy_n(input, count, to); }, target, mask, prediction);
}

bool Forecaster::reads_mask() const {
  return std::any_of(plan_.batch.begin(), plan_.batch.end(),
                     [](const plan::BatchTensor& t) { return t.role == plan::BatchRole::mask; });
}

void Forecaster::operator()(const Fill& input, float* prediction) {
  compute(predict_, input, nullptr, nullptr, prediction);
}

bool Forecaster::reads_times() const {
  return std::any_of(plan_.batch.begin(), plan_.batch.end(),
                     [](const plan::BatchTensor& t) { return t.role == plan::BatchRole::time; });
}

void Forecaster::compute(const InOrder& ops, const Fill& input, const float* target, const float* mask,
                         float* prediction) {
  if (reads_times() && static_cast<int64_t>(hours_.size()) < batch())
    throw ConfigError("", "net.kind", spec_.net.kind() + " reads the times of its samples, and got none",
                      "forecast from files with a time axis (isobar forecast --data)");
  backend_.on_fetch([&](int32_t, const BatchPlaces& to) {
    for (const plan::BatchTensor& t : plan_.batch) {
      if (t.role == plan::BatchRole::time) {
        for (int64_t b = 0; b < batch(); ++b) t.code(hours_[b], to.floats(t.name) + b * t.sample);
        continue;
      }
      if (t.role == plan::BatchRole::input)
        input(to.floats(t.name), batch() * t.sample);
      else if (target != nullptr)
        std::copy_n(t.role == plan::BatchRole::mask ? mask : target, batch() * t.sample, to.floats(t.name));
    }
  });
  run_in_order(plan_, ops, backend_);
  take(prediction);
}

double Forecaster::loss() const {
  return static_cast<double>(floats(plan_.metrics)[0]);
}

std::vector<double> Forecaster::errors() const {
  const plan::Metric& m = plan_.metrics_named.at(1);
  const float* first = floats(plan_.metrics) + m.first;
  return {first, first + m.count};
}

// Each row is a patch with its points and their channels: [batch, H/p, W/p][p, p, C].
void Forecaster::take(float* prediction) const {
  const int64_t C = patches_.channels, H = patches_.height, W = patches_.width, p = patches_.patch;
  const std::byte* from = backend_.at(predicted_);
  const DType type = plan_.buffers[predicted_.buffer].dtype;
  if (const std::optional<GridBox> region = this->region()) {
    const Shape out = output();
    std::fill_n(prediction, batch() * out.size(), std::numeric_limits<float>::quiet_NaN());
    for (int64_t row = 0; row < batch() * region->points(); ++row) {
      const int64_t b = row / region->points(), point = row % region->points();
      const int64_t y = region->row + point / region->columns, x = region->column + point % region->columns;
      for (int64_t c = 0; c < C; ++c)
        prediction[((b * C + c) * out.height + y) * out.width + x] = number_at(from, type, row * C + c);
    }
    return;
  }
  if (H * W == 1) return cpu::cast(batch() * C, type, DType::f32, from, prediction);  // already in order
#pragma omp parallel for schedule(static)
  for (int64_t line = 0; line < batch() * H; ++line) {
    const int64_t b = line / H, y = line % H;
    for (int64_t x = 0; x < W; ++x) {
      const int64_t row = (b * (H / p) + y / p) * (W / p) + x / p;
      const int64_t first = row * p * p * C + (y % p * p + x % p) * C;
      for (int64_t c = 0; c < C; ++c)
        prediction[((b * C + c) * H + y) * W + x] = number_at(from, type, first + c);
    }
  }
}

}  // namespace isobar::inference
