// The samples of each optimizer step: a permutation of the set in each epoch, from one seed, without the last
// incomplete global batch.
//
// Epochs as optimizer steps. An epoch is the whole global batches of the training data, each sample once, in
// one order for any layout (sample_order.h); the rest, less than a batch, is left out, and is another one in
// each epoch.
//
//   spec = with_epochs(spec);                  // train.epochs: 3 of 100 samples in batches of 16:
//   train.steps = 18
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec/spec.h"

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

/// Opens data.train where train.epochs is set; else returns the spec unchanged. Throws ConfigError.
RunSpec with_epochs(const RunSpec& spec);
/// The same, with the files opened in a child process (model/base/system/child.h), once for each data.
RunSpec with_epochs_apart(const RunSpec& spec);

}  // namespace isobar::data
