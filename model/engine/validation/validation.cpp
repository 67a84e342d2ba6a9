#include "model/engine/validation/validation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/base/step_tensor.h"
#include "model/engine/executor.h"
#include "model/engine/validation/persistence.h"
#include "model/records/curves.h"

namespace isobar::engine {

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

}  // namespace isobar::engine
