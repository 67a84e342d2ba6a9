#include "model/data/choice/sample_order.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "model/base/rng.h"

namespace isobar::data {
namespace {

constexpr uint64_t kShuffleStream = uint64_t{0x64617461} << 32;  // "data": a random stream of its own

}  // namespace

SampleOrder::SampleOrder(int64_t set_size, int64_t global_batch, uint64_t seed, bool shuffle, bool whole)
    : set_size_(set_size),
      global_batch_(global_batch),
      batches_((set_size + (whole ? global_batch - 1 : 0)) / global_batch),
      seed_(seed),
      shuffle_(shuffle) {}

int64_t SampleOrder::at(int64_t step, int64_t place) {
  if (step / batches_ != epoch_) {
    epoch_ = step / batches_;
    if (shuffle_) {
      order_ = permutation(set_size_, seed_, kShuffleStream + static_cast<uint64_t>(epoch_));
    } else {
      order_.resize(static_cast<size_t>(set_size_));
      std::iota(order_.begin(), order_.end(), 0);
    }
  }
  return order_[std::min(step % batches_ * global_batch_ + place, set_size_ - 1)];
}

std::vector<int64_t> global_batch_samples(int64_t set_size, int64_t global_batch, int64_t step, uint64_t seed,
                                          bool shuffle) {
  SampleOrder order(set_size, global_batch, seed, shuffle);
  if (order.batches_per_epoch() == 0)
    throw std::invalid_argument("global_batch_samples: fewer samples than one global batch");
  std::vector<int64_t> samples(static_cast<size_t>(global_batch));
  for (int64_t i = 0; i < global_batch; ++i) samples[i] = order.at(step, i);
  return samples;
}

}  // namespace isobar::data
