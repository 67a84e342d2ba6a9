#include "model/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "model/base/error.h"
#include "model/base/system/denormals.h"

namespace isobar::data {

namespace {

// Minimum size of a job: reading a few table rows takes less time than the locking for a job.
constexpr int64_t kBytesOfAJob = 1 << 16;

int64_t slots_for(const LoaderOptions& o) {
  return o.workers == 0 ? 1 : std::max<int64_t>(1, o.prefetch * o.workers) + 1;
}

LoaderOptions checked(LoaderOptions o) {
  if (o.batch < 1 || o.per_step < 1 || o.dp < 1 || o.rank < 0 || o.rank >= o.dp || o.workers < 0 ||
      o.prefetch < 0)
    throw std::invalid_argument("Loader: impossible options");
  return o;
}

struct FreeAligned {
  void operator()(float* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float[], FreeAligned>;

Buffer allocate(int64_t floats) {
  const int64_t bytes = (floats * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
  auto* p = static_cast<float*>(std::aligned_alloc(64, bytes));
  if (!p) throw std::bad_alloc();
  return Buffer(p);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// Ring buffer with batch n in slot n % slots. Workers take (batch, samples) jobs in order, several may fill
// one batch, and they wait while the consumer still holds the slot of the next job.
struct Loader::Impl {
  struct Slot {
    std::vector<Buffer> tensors;  // [batch, size]
    std::vector<double> hours;
    int64_t left = 0;      // samples not yet read
    int64_t error_at = 0;  // first sample that failed, so that the error does not depend on timing
    std::exception_ptr error;
  };

  Impl(const Dataset& s, LoaderOptions given)
      : set(s),
        options(checked(std::move(given))),
        tensors(s.tensors()),
        order(s.size(), options.batch * options.per_step * options.dp, options.seed, options.shuffle,
              options.whole),
        slots(slots_for(options)) {
    int64_t bytes = 0;
    for (const SampleTensor& t : tensors) bytes += static_cast<int64_t>(sizeof(float)) * t.size;
    grain = std::max<int64_t>(1, kBytesOfAJob / bytes);
    const LoaderOptions& o = options;
    if (order.batches_per_epoch() == 0)
      throw ConfigError("configuration", "train.global_batch",
                        "the set has " + std::to_string(s.size()) +
                            " samples, fewer than one global batch of " +
                            std::to_string(o.batch * o.per_step * o.dp),
                        "lower train.global_batch, or give more data (data.limit_samples)");
    for (Slot& slot : slots)
      for (const SampleTensor& t : tensors) slot.tensors.push_back(allocate(o.batch * t.size));
    for (Slot& slot : slots) slot.hours.resize(static_cast<size_t>(o.batch));
    reset(0);
    try {
      for (int64_t w = 0; w < o.workers; ++w) threads.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Impl() { stop(); }

  void stop() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    job_ready.notify_all();
    for (std::thread& t : threads) t.join();
    threads.clear();
  }

  void reset(int64_t batch) {
    consumed = job_batch = batch;
    job_sample = 0;
    held = false;
  }

  /// Dataset index of sample b of batch n. Jobs come in order, so SampleOrder keeps the order of one epoch
  /// only.
  int64_t sample_index(int64_t n, int64_t b) {
    if (options.choose) return options.choose(n, b);
    const int64_t step = n / options.per_step, micro = n % options.per_step;
    return order.at(step, (micro * options.dp + options.rank) * options.batch + b);
  }

  /// `to`: scratch for the addresses, one per thread
  void read_sample(Slot& slot, int64_t index, int64_t b, std::vector<float*>& to) const {
    to.resize(tensors.size());
    for (size_t i = 0; i < to.size(); ++i) to[i] = slot.tensors[i].get() + b * tensors[i].size;
    slot.hours[b] = set.hours(index, 0);
    set.read_tensors(index, to);
  }

  Batch batch_of(const Slot& slot, std::chrono::steady_clock::time_point start) const {
    Batch batch{tensors, {}, slot.hours, seconds_since(start)};
    for (const Buffer& b : slot.tensors) batch.data.push_back(b.get());
    return batch;
  }

  void work() {
    flush_denormals();
    std::vector<int64_t> indices;
    std::vector<float*> to;
    std::unique_lock lock(mutex);
    for (;;) {
      const auto slot_free = [&] {
        return job_batch < consumed + static_cast<int64_t>(slots.size()) - (held ? 1 : 0);
      };
      job_ready.wait(lock, [&] { return stopping || (!seeking && slot_free()); });
      if (stopping) return;
      const int64_t n = job_batch, first = job_sample, count = std::min(grain, options.batch - first);
      Slot& slot = slots[n % slots.size()];
      if (first == 0) slot.left = options.batch, slot.error = nullptr, slot.error_at = options.batch;
      if ((job_sample += count) == options.batch) job_sample = 0, ++job_batch;
      std::exception_ptr error;
      int64_t b = first;  // the sample that failed, if any
      indices.clear();
      try {
        for (int64_t i = first; i < first + count; ++i) indices.push_back(sample_index(n, i));
      } catch (...) {
        error = std::current_exception();
      }
      ++busy;
      lock.unlock();
      if (!error) {
        try {
          for (; b < first + count; ++b) read_sample(slot, indices[b - first], b, to);
        } catch (...) {
          error = std::current_exception();
        }
      }
      lock.lock();
      --busy;
      if (error && b < slot.error_at) slot.error = error, slot.error_at = b;
      slot.left -= count;
      if (slot.left == 0 || (seeking && busy == 0)) batch_ready.notify_all();
    }
  }

  Batch next_unthreaded() {
    flush_denormals();
    const auto start = std::chrono::steady_clock::now();
    Slot& slot = slots[0];
    std::vector<float*> to;
    for (int64_t b = 0; b < options.batch; ++b) read_sample(slot, sample_index(consumed, b), b, to);
    ++consumed;
    return batch_of(slot, start);
  }

  Batch next() {
    if (options.workers == 0) return next_unthreaded();
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    if (held) {  // the caller has finished with its last batch
      held = false;
      job_ready.notify_all();
    }
    Slot& slot = slots[consumed % slots.size()];
    const auto complete = [&] { return job_batch > consumed && slot.left == 0; };
    batch_ready.wait(lock, complete);
    if (slot.error) std::rethrow_exception(slot.error);
    ++consumed;
    held = true;
    return batch_of(slot, start);
  }

  void seek(int64_t batch) {
    std::unique_lock lock(mutex);
    seeking = true;
    batch_ready.wait(lock, [&] { return busy == 0; });
    reset(batch);
    seeking = false;
    job_ready.notify_all();
  }

  const Dataset& set;
  const LoaderOptions options;
  const std::vector<SampleTensor> tensors;
  SampleOrder order;  // guarded by the mutex below
  int64_t grain = 1;  // samples of a job
  std::vector<Slot> slots;
  std::vector<std::thread> threads;

  std::mutex mutex;  // guards everything below, and the bookkeeping of the slots
  std::condition_variable job_ready, batch_ready;
  int64_t consumed = 0;                   // batches that next() has returned
  int64_t job_batch = 0, job_sample = 0;  // the next job
  int64_t busy = 0;                       // workers that are reading
  bool held = false;                      // the caller still uses batch consumed - 1
  bool seeking = false, stopping = false;
};

Loader::Loader(const Dataset& set, LoaderOptions options)
    : impl_(std::make_unique<Impl>(set, std::move(options))) {}
Loader::~Loader() = default;
int64_t Loader::batches_per_epoch() const {
  return impl_->order.batches_per_epoch();
}
void Loader::seek(int64_t micro_batch) {
  impl_->seek(micro_batch);
}
Batch Loader::next() {
  return impl_->next();
}

const float* Batch::at(std::string_view name) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) return data[i];
  throw std::out_of_range("the samples have no " + std::string(name));
}

int64_t Loader::bytes(const LoaderOptions& o, std::span<const SampleTensor> tensors) {
  int64_t slot = 0;
  for (const SampleTensor& t : tensors)
    slot += (o.batch * t.size * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
  return slots_for(o) * slot;
}

}  // namespace isobar::data
