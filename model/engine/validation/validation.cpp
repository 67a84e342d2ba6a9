#include "model/engine/validation/validation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "model/base/latitude.h"
#include "model/base/spec/spec.h"
#include "model/base/step_tensor.h"
#include "model/engine/executor.h"
#include "model/engine/validation/jacobian_statistics.h"
#include "model/inference/weights/params.h"
#include "model/nets/graph/regional_gnn.h"
#include "model/records/curves.h"

namespace isobar::engine {
namespace {

// Persistence baseline: the forecast that nothing changes. Latitude-weighted RMSE between a batch's input and
// target, with the formula of the net's own metric (base/latitude.h); for a regional net over its points,
// unweighted unless train.latitude_weights is set, as in its metric.

// Weights of a region's rows
std::vector<double> weights_of(const RunSpec& spec, const GridBox& region) {
  if (!spec.train.latitude_weights) return std::vector<double>(static_cast<size_t>(region.rows), 1.0);
  const RegionalGnnSpec& n = spec.net.regional_gnn();
  std::vector<double> latitudes;
  for (int64_t r = 0; r < region.rows; ++r)
    latitudes.push_back(n.north - n.spacing * static_cast<double>(region.row + r));
  return row_weights(region.rows, latitudes);
}

/// Adds the sum over the batch of each target channel's RMSE. input and target are [batch,channels,H,W];
/// `persistent` maps target channels to input channels; `mask` [batch,channels,H,W] excludes points where it
/// is 0 (nullptr: none). `spec`: of an image net; `latitudes`: of its rows, {} if unknown
void add_persistence_rmse(const RunSpec& spec, const std::vector<double>& latitudes, int64_t batch,
                          const float* input, const float* target, const float* mask,
                          const std::vector<int64_t>& persistent, std::vector<double>& sums) {
  const Images& grid = *spec.net.images();
  const int64_t H = grid.img_height, W = grid.img_width, C = grid.out_channels;
  const std::optional<GridBox> region = nets::predicted_region(spec.net);
  const GridBox box = region.value_or(GridBox{0, 0, H, W});
  const std::vector<double> weight = region ? weights_of(spec, box) : row_weights(box.rows, latitudes);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < C; ++c) {
      double sum = 0, points = 0;
      for (int64_t h = 0; h < box.rows; ++h) {
        const int64_t first = (box.row + h) * W + box.column;
        const float* before = input + (b * grid.in_channels + persistent[c]) * H * W + first;
        const float* row = target + (b * C + c) * H * W + first;
        const float* counts = mask ? mask + (b * C + c) * H * W + first : nullptr;
        double squares = 0, there = 0;
        for (int64_t w = 0; w < box.columns; ++w) {
          if (counts && counts[w] == 0) continue;
          const double d = static_cast<double>(before[w]) - static_cast<double>(row[w]);
          squares += d * d, ++there;
        }
        sum += squares * weight[h];
        points += there * weight[h];
      }
      if (!mask) points = static_cast<double>(box.points());
      if (points > 0) sums[c] += std::sqrt(sum / points);
    }
  }
}

}  // namespace

Validation::Validation(const RunSpec& spec, const plan::Plan& plan, RankData& data, Processor& processor,
                       const comm::Mpi& mpi, int threads, SlowWork& slow)
    : spec_(spec),
      plan_(plan),
      data_(data),
      processor_(processor),
      backend_(processor.backend()),
      runner_(processor.runner()),
      mpi_(mpi),
      slow_(slow),
      eval_(plan::link(plan, plan.eval, spec.run.serial)),
      exchange_(plan::link(plan, plan.exchange, spec.run.serial)) {
  runner_.keep(eval_);
  if (spec.train.ema_valid) runner_.keep(exchange_);
  if (spec.run.tensorboard && FieldPicture::exists(spec))
    picture_.emplace(spec, plan, records::pictured_channel(data.channels().targets));
  if (spec.train.jacobian_samples > 0) jacobian_.emplace(spec, plan, mpi, threads);
  // Variables that are only predicted have no persistence.
  std::vector<int64_t> persistent = data.channels().persistent();
  if (of_fields(plan) && std::find(persistent.begin(), persistent.end(), -1) == persistent.end())
    persistent_ = std::move(persistent);
}

records::ValidRecord Validation::operator()(int64_t step) {
  const int64_t t0 = now_ns();
  // Baselines do not depend on the weights and are computed once.
  const bool first = !sampled_;
  if (first && !persistent_.empty()) persistence_.assign(static_cast<size_t>(errors_of(plan_).count), 0.0);
  if (first) frequency_.assign(static_cast<size_t>(data_.classes()), 0.0);
  std::vector<double> sums(plan_.metrics.count, 0.0);
  runner_.record_to(nullptr);
  processor_.stop_watching();
  const auto times = runner_.op_times();
  const bool averaged = spec_.train.ema_valid;
  if (averaged) runner_(exchange_, 0);
  compute(sums);
  sampled_ = true;
  record_ = {.step = step};
  record_.jacobian = jacobian();
  if (averaged) runner_(exchange_, 0);
  runner_.set_op_times(times);  // validation is not part of the training step

  const auto samples = static_cast<double>(data_.validation_samples());
  const auto whole = static_cast<double>(spec_.micro_batch() * spec_.layout.dp);
  for (double& x : sums) x /= samples / whole;
  if (first) average_baselines(samples);
  record_.seconds = static_cast<double>(now_ns() - t0) * 1e-9;
  fill_records(sums);
  return record_;
}

// From sums of this rank's samples to means over all ranks.
void Validation::average_baselines(double samples) {
  if (!persistence_.empty()) {
    persistence_ = mpi_.sum_of(persistence_);
    for (double& x : persistence_) x /= samples;
  }
  if (frequency_.empty()) return;
  const std::vector<double> all = mpi_.sum_of(frequency_);
  most_frequent_ = *std::max_element(all.begin(), all.end()) / samples;
}

void Validation::fill_records(const std::vector<double>& means) {
  record_.loss = means[0];
  record_.persistence_rmse = persistence_;
  last_ = {.step = record_.step, .loss = means[0], .baseline_accuracy = most_frequent_};
  if (!persistence_.empty()) last_->persistence_rmse = persistence_[0];
  if (of_words(plan_)) {
    record_.perplexity = last_->perplexity = std::exp(means[0]);
    return;
  }
  const auto errors = means.begin() + errors_of(plan_).first;
  if (of_classes(plan_)) {
    record_.accuracy = last_->accuracy = *errors;
    record_.baseline_accuracy = most_frequent_;
  } else {
    (of_fields(plan_) ? record_.rmse : record_.mae).assign(errors, errors + errors_of(plan_).count);
    (of_fields(plan_) ? last_->rmse : last_->mae) = *errors;
  }
}

void Validation::compute(std::vector<double>& sums) {
  int64_t at = 0, padding = 0;
  backend_.on_fetch([&](int32_t, const BatchPlaces& to) { read(to, at == 0, padding); });
  data_.seek_validation();
  for (const int64_t batches = data_.validation_batches(); at < batches; ++at) {
    padding = data_.validation_padding(at);
    auto* scalars = reinterpret_cast<float*>(backend_.host(plan_.scalars));
    scalars[plan::kTraining] = 0;
    scalars[plan::kPadding] = static_cast<float>(padding);
    backend_.upload({plan_.scalars});
    runner_(eval_, 0);
    backend_.download({plan_.metrics});
    if (picture_ && at == 0) picture_->take_prediction(backend_);
    const auto* metrics = reinterpret_cast<const float*>(backend_.host(plan_.metrics));
    // The loss op's weight is that of one micro-batch of a training step.
    for (size_t c = 0; c < sums.size(); ++c)
      sums[c] += metrics[c] * static_cast<double>(spec_.micro_batches());
  }
}

void Validation::read(const BatchPlaces& to, bool first, int64_t padding) {
  const auto reading = slow_.begin("reading samples of the validation");
  const data::Batch batch = data_.next_validation(to);
  const int64_t own = spec_.micro_batch() - padding;
  if (jacobian_ && mpi_.rank() == 0 && !sampled_) jacobian_->sample(batch.at("input"), own);
  if (!data_.scores()) return;
  if (picture_ && first) picture_->take_truth(batch.at("target"));
  if (sampled_) return;
  if (!persistent_.empty()) add_persistence(own, batch);
  for (int64_t b = 0; b < own && !frequency_.empty(); ++b)
    frequency_.at(static_cast<size_t>(batch.at("target")[b])) += 1;
}

// At every learnt step of a roll-out, persistence is the newest input state.
void Validation::add_persistence(int64_t samples, const data::Batch& batch) {
  const int64_t steps = spec_.learnt_steps();
  std::vector<double> all(persistence_.size(), 0.0);
  for (int64_t k = 0; k < steps; ++k)
    add_persistence_rmse(
        spec_, data_.latitudes(), samples, batch.at("input"), batch.at(step_tensor("target", k)),
        spec_.masks_targets() ? batch.at(step_tensor("mask", k)) : nullptr, persistent_, all);
  for (size_t c = 0; c < all.size(); ++c) persistence_[c] += all[c] / static_cast<double>(steps);
}

std::optional<records::JacobianRecord> Validation::jacobian() {
  if (!jacobian_) return std::nullopt;
  backend_.download({plan_.params_all});
  auto of_weights = (*jacobian_)(reinterpret_cast<float*>(backend_.host(plan_.params_all)));
  backend_.drop_host_copies();
  return of_weights;
}

std::string Validation::text() const {
  const double error = of_words(plan_)     ? *last_->perplexity
                       : of_fields(plan_)  ? *last_->rmse
                       : of_classes(plan_) ? *last_->accuracy
                                           : *last_->mae;
  char line[160], against[64] = "";
  if (!persistence_.empty()) std::snprintf(against, sizeof against, "  persistence %.5f", persistence_[0]);
  if (most_frequent_) std::snprintf(against, sizeof against, "  most frequent class %.5f", *most_frequent_);
  std::snprintf(line, sizeof line, "valid after step %ld: loss %.5f  %s %.5f%s  (%.1f s)", last_->step,
                last_->loss, error_name(plan_).c_str(), error, against, record_.seconds);
  std::string out = line;
  if (const auto& j = record_.jacobian) {
    std::snprintf(line, sizeof line, "\njacobian over %ld samples: norm %.5f  mean %.5f  largest %.5f",
                  j->samples, j->frobenius, j->mean, j->max);
    out += line;
  }
  return out;
}

namespace {

constexpr int64_t kRows = 32;  // most rows of a pass

int64_t elements(const plan::Tensor& t) {
  return std::accumulate(t.shape.begin(), t.shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

TrackedJacobian::TrackedJacobian(const RunSpec& spec, const plan::Plan& plan, const comm::Mpi& mpi,
                                 int threads)
    : plan_(plan), mpi_(mpi), wanted_(spec.train.jacobian_samples) {
  if (mpi.rank() == 0) jacobian_.emplace(spec, std::min(spec.net.outputs(), kRows), threads);
}

void TrackedJacobian::sample(const float* inputs, int64_t count) {
  for (int64_t i = 0; i < count && static_cast<int64_t>(samples_.size()) < wanted_; ++i) {
    const float* first = inputs + i * jacobian_->inputs();
    samples_.emplace_back(first, first + jacobian_->inputs());
  }
}

std::optional<records::JacobianRecord> TrackedJacobian::operator()(const float* params) {
  std::map<std::string, std::vector<double>> whole;
  for (const plan::Tensor& t : plan_.tensors) {  // the same on every rank
    std::vector<double> values(static_cast<size_t>(elements(t)), 0.0);
    for (const plan::Param& p : plan_.params)
      if (p.writer && p.name == t.name)
        for (const inference::ElementRun& r : inference::kept_runs(plan_, p, &plan::Shard::params))
          std::copy_n(params + r.offset, r.count, values.begin() + r.whole);
    whole[t.name] = mpi_.sum_of(std::move(values));
  }
  if (!jacobian_) return std::nullopt;
  for (const plan::Param& p : jacobian_->plan().params)
    for (const inference::ElementRun& r : inference::kept_runs(jacobian_->plan(), p, &plan::Shard::params))
      std::copy_n(whole.at(p.name).begin() + r.whole, r.count, jacobian_->weights() + r.offset);
  jacobian_->weights_changed();
  std::vector<int64_t> all(static_cast<size_t>(jacobian_->outputs()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<float>> matrices;
  for (const std::vector<float>& input : samples_) matrices.push_back(jacobian_->rows(input.data(), all));
  return statistics_of(matrices, jacobian_->outputs(), jacobian_->inputs());
}

}  // namespace isobar::engine
