// The samples of each optimizer step: a permutation of the set in each epoch, from one seed, without the last
// incomplete global batch.
#pragma once
#include <cstdint>
#include <vector>

namespace isobar::data {

class SampleOrder {
 public:
  /// `whole`: include the last, smaller batch, padded with the epoch's last sample.
  SampleOrder(int64_t set_size, int64_t global_batch, uint64_t seed, bool shuffle, bool whole = false);
  int64_t batches_per_epoch() const { return batches_; }
  /// Index of the sample at `place` in the global batch of `step`. Keeps the order of one epoch.
  int64_t at(int64_t step, int64_t place);

 private:
  int64_t set_size_, global_batch_, batches_;
  uint64_t seed_;
  bool shuffle_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;  // of epoch_
};

/// The whole global batch of `step`, in the order (micro-batch, dp rank, sample).
std::vector<int64_t> global_batch_samples(int64_t set_size, int64_t global_batch, int64_t step, uint64_t seed,
                                          bool shuffle);

}  // namespace isobar::data
