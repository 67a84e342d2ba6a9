// A pass over the validation samples: loss and errors of the predictions, of persistence and of the most
// frequent class; on request the net's Jacobian and an image of the first sample.
//
//   Validation validation(spec, plan, *data, *processor, mpi, threads, slow);
//   const ValidRecord record = validation(step);   // collective; the same on every rank but for `jacobian`
//   say(validation.text());
//
// Jacobian of a net during training, over the first validation samples that rank 0 reads, always the same.
// Ranks send their parts of the parameters to rank 0, which computes it.
//
//   TrackedJacobian tracked(spec, plan, mpi, threads);
//   tracked.sample(batch.at("input"), micro_batch);      // while a validation reads, on rank 0
//   std::optional<JacobianRecord> r = tracked(params);   // collective; on rank 0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/comm/comm.h"
#include "model/engine/liveness/slow_work.h"
#include "model/engine/processor.h"
#include "model/engine/rank_data.h"
#include "model/engine/validation/field_picture.h"
#include "model/inference/jacobian.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"
#include "model/records/records.h"

namespace isobar::engine {

class TrackedJacobian {
 public:
  TrackedJacobian(const RunSpec& spec, const plan::Plan& plan, const comm::Mpi& mpi, int threads);
  void sample(const float* inputs, int64_t count);
  /// `params`: this rank's shards, as in its plan.
  std::optional<records::JacobianRecord> operator()(const float* params);

 private:
  const plan::Plan& plan_;
  const comm::Mpi& mpi_;
  const int64_t wanted_;
  std::optional<inference::Jacobian> jacobian_;  // rank 0
  std::vector<std::vector<float>> samples_;
};

/// True if experts' shares follow the loss of words.
inline bool of_experts(const plan::Plan& plan) {
  return plan.metrics_named.size() > 1 && plan.metrics_named[1].name == "imbalance";
}
/// Words have no error besides the loss.
inline bool of_words(const plan::Plan& plan) {
  return plan.metrics_named.size() == 1 || of_experts(plan);
}
/// The plan's error metric besides the loss: RMSE for fields, mean absolute error for scalars, accuracy for
/// classes.
inline const plan::Metric& errors_of(const plan::Plan& plan) {
  return plan.metrics_named.at(1);
}
/// Name of the number that a line of text gives besides the loss; perplexity is the loss's exponential.
inline std::string error_name(const plan::Plan& plan) {
  return of_words(plan) ? "perplexity" : errors_of(plan).name;
}
inline bool of_fields(const plan::Plan& plan) {
  return !of_words(plan) && errors_of(plan).name == "rmse";
}
inline bool of_classes(const plan::Plan& plan) {
  return !of_words(plan) && errors_of(plan).name == "accuracy";
}

class Validation {
 public:
  /// `spec`: with the latitudes of the loss, which depend on the data.
  Validation(const RunSpec& spec, const plan::Plan& plan, RankData& data, Processor& processor,
             const comm::Mpi& mpi, int threads, SlowWork& slow);
  records::ValidRecord operator()(int64_t step);
  /// Terminal text of the last pass: one line, or two with a Jacobian.
  std::string text() const;
  /// Values of the last pass for run_end.
  const std::optional<records::LastValid>& last() const { return last_; }
  /// Collective: the first sample of the last pass as PNG; "" if not requested or not available.
  std::string picture() { return picture_ ? picture_->png(mpi_) : ""; }

 private:
  void read(const BatchPlaces& to, bool first, int64_t padding);
  void compute(std::vector<double>& sums);
  void average_baselines(double samples);
  void fill_records(const std::vector<double>& means);
  std::optional<records::JacobianRecord> jacobian();
  void add_persistence(int64_t samples, const data::Batch& batch);
  const RunSpec& spec_;
  const plan::Plan& plan_;
  RankData& data_;
  Processor& processor_;
  Backend& backend_;
  Runner& runner_;
  const comm::Mpi& mpi_;
  SlowWork& slow_;
  const plan::Program eval_, exchange_;  // exchange_ swaps weights and moving average
  std::optional<TrackedJacobian> jacobian_;
  std::optional<FieldPicture> picture_;
  bool sampled_ = false;  // the Jacobian has its samples
  // Sums over this rank's samples during the first pass; afterwards means over all ranks
  std::vector<double> persistence_, frequency_;
  std::vector<int64_t> persistent_;      // input channel of each target; empty: no persistence
  std::optional<double> most_frequent_;  // share of the validation samples
  records::ValidRecord record_;
  std::optional<records::LastValid> last_;
};

}  // namespace isobar::engine
