// Batches for one dp rank, in an order that depends on (seed, epoch) alone: never on the number of workers,
// the prefetch depth or where a run was resumed.
//
// The sampler permutes all samples per epoch with one seed, gives rank r of dp every dp-th block of its
// batch, and drops the last incomplete global batch. With workers = 0 next() reads itself; else `workers`
// threads read samples ahead into `prefetch * workers` batch slots (at least one), beside the one in use.
//
//   Loader loader(*set, {.batch = 4, .per_step = 1, .dp = 2, .rank = 0, .seed = 1, .workers = 2,
//                        .prefetch = 2, .shuffle = true});
//   loader.seek(step);           // resume: the batch that micro-batch `step` gets
//   Batch b = loader.next();     // b.at("input") [batch,channels,H,W], valid until the next call
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/data/dataset.h"

namespace isobar {

struct LoaderOptions {
  int64_t batch;     // samples per call of next(): the micro-batch of this rank
  int64_t per_step;  // micro-batches per optimizer step: batch * per_step * dp = global batch
  int64_t dp, rank;
  uint64_t seed;
  int64_t workers, prefetch;
  bool shuffle;
  bool whole = false;  // the last, smaller batch too, filled up with its last sample
};

struct Batch {
  /// [batch, what a sample has of it]. Throws std::out_of_range for a tensor that the dataset does not give.
  const float* at(std::string_view name) const;

  std::span<const SampleTensor> tensors;  // of the dataset
  std::vector<const float*> data;         // of each
  std::span<const double> hours;          // [batch] when the inputs were, since 1970; NaN: nobody knows
  double wait_s;                          // how long next() waited for data
};

class Loader {
 public:
  Loader(const Dataset& set, LoaderOptions options);
  ~Loader();
  int64_t batches_per_epoch() const;  // optimizer steps per epoch (whole global batches)
  void seek(int64_t micro_batch);     // absolute count of next() calls since the start of training
  Batch next();                       // rethrows a worker's error
  /// Host memory that the slots take
  static int64_t bytes(const LoaderOptions& o, std::span<const SampleTensor> tensors);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Which samples the global batch of `step` holds, in the order (micro-batch, dp rank, sample).
std::vector<int64_t> global_batch_samples(int64_t set_size, int64_t global_batch, int64_t step, uint64_t seed,
                                          bool shuffle);

}  // namespace isobar
