// A pass over the validation's samples: the loss and the errors of what is predicted, of persistence and of
// the most frequent class beside it; where they are asked for the net's Jacobian and a picture of the first
// sample.
//
//   Validation validation(spec, plan, *data, *processor, mpi, threads, slow);
//   const ValidRecord record = validation(step);   // collective; the same on every rank but for `jacobian`
//   say(validation.text());
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "model/comm/comm.h"
#include "model/engine/field_picture.h"
#include "model/engine/processor.h"
#include "model/engine/rank_data.h"
#include "model/engine/slow_work.h"
#include "model/engine/tracked_jacobian.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"
#include "model/records/records.h"

namespace isobar {

/// What a plan's metrics tell beside the loss: an RMSE of fields, a mean absolute error of single numbers, a
/// share of right answers of classes.
inline const Metric& errors_of(const Plan& plan) {
  return plan.metrics_named.at(1);
}
inline bool of_fields(const Plan& plan) {
  return errors_of(plan).name == "rmse";
}
inline bool of_classes(const Plan& plan) {
  return errors_of(plan).name == "accuracy";
}

class Validation {
 public:
  /// `spec`: with the latitudes of the loss, which are known with the data.
  Validation(const RunSpec& spec, const Plan& plan, RankData& data, Processor& processor, const Mpi& mpi,
             int threads, SlowWork& slow);
  ValidRecord operator()(int64_t step);
  /// Of the last pass, for people: a line, or two with a Jacobian.
  std::string text() const;
  /// Of the last pass, for the run's end.
  const std::optional<LastValid>& last() const { return last_; }
  /// Collective: the first sample of the last pass as PNG; "" where nobody wants it or it has none.
  std::string picture() { return picture_ ? picture_->png(mpi_) : ""; }

 private:
  void read(const BatchPlaces& to, bool first, int64_t padding);
  void compute(std::vector<double>& sums);
  std::optional<JacobianRecord> jacobian();
  void add_persistence(int64_t samples, const Batch& batch);
  const RunSpec& spec_;
  const Plan& plan_;
  RankData& data_;
  Processor& processor_;
  Backend& backend_;
  Runner& runner_;
  const Mpi& mpi_;
  SlowWork& slow_;
  const Program eval_, exchange_;  // the latter puts the moving average in the weights' place, and back
  std::optional<TrackedJacobian> jacobian_;
  std::optional<FieldPicture> picture_;
  bool sampled_ = false;  // the first pass has shown the Jacobian its samples
  // Sums over this rank's samples while the first pass reads; of all ranks' afterwards, a sample
  std::vector<double> persistence_, frequency_;
  std::vector<int64_t> persistent_;      // the input that each target persists from; empty: not asked for
  std::optional<double> most_frequent_;  // share of the validation's samples
  ValidRecord record_;
  std::optional<LastValid> last_;
};

}  // namespace isobar
