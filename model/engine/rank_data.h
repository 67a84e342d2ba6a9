// A run's samples as one rank sees them: training and validation set, with loaders if its plan reads samples.
// Ranks of one replica read the same samples.
//
//   RankData data(spec, plan, mpi.rank());
//   data.seek(state.step);
//   const Batch batch = data.next(places);
#pragma once
#include <memory>
#include <optional>

#include "model/backend/batch_places.h"
#include "model/base/spec/spec.h"
#include "model/data/choice/replay_schedule.h"
#include "model/data/loader.h"
#include "model/engine/channels_of_data.h"
#include "model/plan/plan.h"

namespace isobar::engine {

class RankData {
 public:
  /// `known`: statistics passed to open_dataset. Throws ConfigError if there are too few samples.
  RankData(const RunSpec& spec, const plan::Plan& plan, int rank, const data::Statistics* known = nullptr);

  bool has_validation() const { return valid_set_ != nullptr; }
  /// True on exactly one rank a replica that sees its predictions.
  bool scores() const { return scores_; }
  int64_t steps_per_epoch() const;
  int64_t training_samples() const { return train_set_->size(); }
  data::ChannelNames channels() const { return train_set_->channels(); }
  inference::NetChannels net_channels() const { return channels_of_data(*train_set_); }
  /// Refuses a resume whose data have other channels than the checkpoint's net. Returns a remark if their
  /// means or deviations differ, or "".
  std::string compare_with(const inference::NetChannels& net, const std::string& checkpoint) const;
  /// Latitudes of the rows of fields, degrees north; {}: unknown
  std::vector<double> latitudes() const { return train_set_->coordinates().latitude; }
  data::LeftOut left_out() const { return train_set_->left_out(); }
  std::vector<std::string> flat_channels() const { return train_set_->flat_channels(); }
  /// All samples are validated; the last batch may be smaller.
  int64_t validation_samples() const { return valid_set_->size(); }
  int64_t validation_batches() const;
  /// Number of padding samples at the end of this rank's part of a batch
  int64_t validation_padding(int64_t batch) const;
  int64_t classes() const { return train_set_->shape().classes; }

  /// The order of samples and predictions with a replay buffer in spec.train.
  data::ReplaySchedule replay_schedule() const;

  /// Positions the loader at the step's first batch.
  void seek(int64_t step);
  void seek_validation();
  /// Copies the next batch's tensors to the plan's buffers.
  data::Batch next(const BatchPlaces& to);
  data::Batch next_validation(const BatchPlaces& to);

 private:
  data::Batch fetch(data::Loader& loader, const BatchPlaces& to) const;

  const RunSpec& spec_;
  std::unique_ptr<data::Dataset> train_set_, valid_set_;
  std::optional<data::Loader> train_loader_, valid_loader_;
  bool scores_ = false;
  int64_t replica_ = 0;  // index along layout.dp
};

}  // namespace isobar::engine
