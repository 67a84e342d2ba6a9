// Batches for one dp rank, in an order that depends only on (seed, epoch), not on the number of workers, the
// prefetch depth or the step at which a run resumes.
//
// Samples come in the order of sample_order.h; rank r gets every dp-th block of a global batch. With workers
// = 0 next() reads the batch itself; else `workers` threads read ahead into `prefetch * workers` batch slots
// (at least one), in addition to the slot in use.
//
//   Loader loader(*set, {.batch = 4, .per_step = 1, .dp = 2, .rank = 0, .seed = 1, .workers = 2,
//                        .prefetch = 2, .shuffle = true});
//   loader.seek(step);           // resume: the batch that micro-batch `step` gets
//   Batch b = loader.next();     // b.at("input") [batch,channels,H,W], valid until the next call
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/data/choice/sample_order.h"
#include "model/data/dataset.h"

namespace isobar::data {

struct LoaderOptions {
  int64_t batch;     // samples per call of next(): the micro-batch of this rank
  int64_t per_step;  // micro-batches per optimizer step: batch * per_step * dp = global batch
  int64_t dp, rank;
  uint64_t seed;
  int64_t workers, prefetch;
  bool shuffle;
  bool whole = false;  // include the last, smaller batch, padded with its last sample
  /// Replaces that order: returns the i-th sample of batch n. Called by one thread at a time and in order,
  /// which restarts after a seek.
  std::function<int64_t(int64_t n, int64_t i)> choose = {};
};

struct Batch {
  /// The tensor as [batch, values per sample]. Throws std::out_of_range for a tensor that the dataset does
  /// not have.
  const float* at(std::string_view name) const;

  std::span<const SampleTensor> tensors;  // the dataset's
  std::vector<const float*> data;         // of each tensor
  std::span<const double> hours;          // [batch] times of the inputs since 1970; NaN: unknown
  double wait_s;                          // time that next() waited for data
};

class Loader {
 public:
  Loader(const Dataset& set, LoaderOptions options);
  ~Loader();
  int64_t batches_per_epoch() const;  // optimizer steps per epoch (whole global batches)
  void seek(int64_t micro_batch);     // absolute count of next() calls since the start of training
  Batch next();                       // rethrows a worker's error
  /// Host memory of the slots
  static int64_t bytes(const LoaderOptions& o, std::span<const SampleTensor> tensors);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobar::data
