// The samples of a run as one rank has them: the training and the validation set, and loaders where its plan
// reads samples. Ranks that share samples read the same ones.
//
//   RankData data(spec, plan, mpi.rank());
//   data.seek(state.step);
//   const Batch batch = data.next(places);
#pragma once
#include <memory>
#include <optional>

#include "model/backend/batch_places.h"
#include "model/base/spec.h"
#include "model/data/loader.h"
#include "model/data/replay_schedule.h"
#include "model/engine/channels_of_data.h"
#include "model/plan/plan.h"

namespace isobar {

class RankData {
 public:
  /// `known`: as open_dataset takes them. Throws ConfigError where the data are too few.
  RankData(const RunSpec& spec, const Plan& plan, int rank, const Statistics* known = nullptr);

  bool has_validation() const { return valid_set_ != nullptr; }
  /// This rank sees the predictions of its samples, and no other rank with the same samples says so.
  bool scores() const { return scores_; }
  int64_t steps_per_epoch() const;
  ChannelNames channels() const { return train_set_->channels(); }
  NetChannels net_channels() const { return channels_of_data(*train_set_); }
  /// Of the rows of fields, degrees from the north; {}: their files do not say
  std::vector<double> latitudes() const { return train_set_->coordinates().latitude; }
  LeftOut left_out() const { return train_set_->left_out(); }
  std::vector<std::string> flat_channels() const { return train_set_->flat_channels(); }
  /// All samples are validated; the last batch may be smaller.
  int64_t validation_samples() const { return valid_set_->size(); }
  int64_t validation_batches() const;
  /// Samples at the end of this rank's part of a batch that only fill it
  int64_t validation_padding(int64_t batch) const;
  int64_t classes() const { return train_set_->shape().classes; }

  /// What this rank's samples are drawn from, where spec.train has a replay buffer.
  ReplaySchedule replay_schedule() const;

  /// The next batch is the step's first.
  void seek(int64_t step);
  void seek_validation();
  /// The next batch, its tensors copied to where the plan wants them.
  Batch next(const BatchPlaces& to);
  Batch next_validation(const BatchPlaces& to);

 private:
  Batch fetch(Loader& loader, const BatchPlaces& to) const;

  const RunSpec& spec_;
  std::unique_ptr<Dataset> train_set_, valid_set_;
  std::optional<Loader> train_loader_, valid_loader_;
  bool scores_ = false;
  int64_t replica_ = 0;  // of layout.dp
};

}  // namespace isobar
