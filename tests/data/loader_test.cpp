// Batches do not depend on workers, prefetch, ranks and resume points.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "model/base/error.h"
#include "model/data/loader.h"
#include "tests/base/denormals.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

constexpr data::FieldShape kShape{2, 3, 5};

/// Sample i has input i and target -i; reading may be slow or fail.
class Numbers : public data::Dataset {
 public:
  explicit Numbers(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  data::SampleShape shape() const override { return kShape; }
  data::ChannelNames channels() const override { return {{"a", "b"}, {"a", "b"}}; }
  void read(int64_t i, float* input, float* target) const override {
    const int64_t now = ++reading;
    int64_t most = most_at_once.load();
    while (now > most && !most_at_once.compare_exchange_weak(most, now)) {
    }
    ++reads;
    if (jitter) std::this_thread::sleep_for(std::chrono::microseconds((i * 7919) % 400));
    // Wait until `together` threads read at once, since a busy machine may start them late.
    for (int i = 0; i < 60'000 && most_at_once < together; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (pause_us) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
    --reading;
    if (bad.contains(i)) throw ConfigError("f", "data.train", "sample " + std::to_string(i), "mend");
    std::fill_n(input, kShape.size(), static_cast<float>(i));
    std::fill_n(target, kShape.size(), static_cast<float>(-i));
  }
  std::set<int64_t> bad;
  bool jitter = false;
  int pause_us = 0, together = 0;
  mutable std::atomic<int64_t> reading{0}, most_at_once{0}, reads{0};

 private:
  int64_t n_;
};

data::LoaderOptions options(int64_t workers, int64_t prefetch = 2) {
  return {.batch = 3,
          .per_step = 2,
          .dp = 2,
          .rank = 1,
          .seed = 5,
          .workers = workers,
          .prefetch = prefetch,
          .shuffle = true};
}

/// Sample numbers of a batch; checks that every element of it was written.
std::vector<int64_t> samples(const data::Batch& b, int64_t batch) {
  std::vector<int64_t> out;
  for (int64_t s = 0; s < batch; ++s) {
    const float v = b.at("input")[s * kShape.size()];
    for (int64_t i = 0; i < kShape.size(); ++i) {
      EXPECT_EQ(b.at("input")[s * kShape.size() + i], v);
      EXPECT_EQ(b.at("target")[s * kShape.size() + i], -v);
    }
    out.push_back(std::lround(v));
  }
  return out;
}

std::vector<std::vector<int64_t>> take(data::Loader& loader, int64_t n, int64_t batch = 3) {
  std::vector<std::vector<int64_t>> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(samples(loader.next(), batch));
  return out;
}

TEST(Loader, BatchesDoNotDependOnWorkersOrPrefetch) {
  Numbers set(50);
  set.jitter = true;
  data::Loader plain(set, options(0));
  EXPECT_EQ(plain.batches_per_epoch(), 4);  // 50 / (3 * 2 * 2)
  const auto want = take(plain, 40);        // five epochs
  for (int64_t workers : {1, 2, 3, 7})
    for (int64_t prefetch : {0, 1, 4}) {
      data::Loader loader(set, options(workers, prefetch));
      EXPECT_EQ(take(loader, 40), want) << workers << " workers, prefetch " << prefetch;
    }
}

// Readers normalise as well, so denormals must be flushed in their threads.
TEST(Loader, FlushesDenormalsWhereverItReads) {
  class Watching : public Numbers {
   public:
    using Numbers::Numbers;
    void read(int64_t i, float* input, float* target) const override {
      if (!flushes_denormals()) ++keeping;
      Numbers::read(i, input, target);
    }
    mutable std::atomic<int64_t> keeping{0};
  };
  const Watching set(50);
  for (const int64_t workers : {0, 2})
    std::thread([&] {
      keep_denormals();
      data::Loader loader(set, options(workers));
      take(loader, 5);
    }).join();
  EXPECT_GT(set.reads, 0);
  EXPECT_EQ(set.keeping, 0);
}

// Further tensors of a dataset are in the batch by name, with and without workers, and count as memory.
TEST(Loader, BringsEveryTensorOfASample) {
  class Masked : public Numbers {
   public:
    using Numbers::Numbers;
    std::vector<data::SampleTensor> tensors() const override {
      std::vector<data::SampleTensor> all = Numbers::tensors();
      all.push_back({"mask", 7});
      return all;
    }
    void read_tensors(int64_t i, std::span<float* const> to) const override {
      Numbers::read_tensors(i, to);
      std::fill_n(to[2], 7, static_cast<float>(1000 + i));
    }
  };
  const Masked set(50);
  for (const int64_t workers : {0, 1, 3}) {
    const data::LoaderOptions o = options(workers);
    data::Loader loader(set, o);
    for (int step = 0; step < 20; ++step) {
      const data::Batch b = loader.next();
      const std::vector<int64_t> got = samples(b, o.batch);
      for (int64_t s = 0; s < o.batch; ++s)
        for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(b.at("mask")[s * 7 + i], 1000 + got[s]);
      EXPECT_THROW(b.at("forcing"), std::out_of_range);
    }
    const int64_t slots = workers == 0 ? 1 : workers * o.prefetch + 1;
    EXPECT_EQ(data::Loader::bytes(o, set.tensors()) - data::Loader::bytes(o, Numbers(1).tensors()),
              slots * ((o.batch * 7 * 4 + 63) / 64 * 64));
  }
}

TEST(Loader, RanksShareTheGlobalBatch) {
  const Numbers set(50);
  for (bool shuffle : {true, false})
    for (int64_t step = 0; step < 9; ++step) {
      std::vector<int64_t> got;
      for (int64_t micro = 0; micro < 2; ++micro)
        for (int64_t rank = 0; rank < 2; ++rank) {
          data::LoaderOptions o = options(2);
          o.rank = rank;
          o.shuffle = shuffle;
          data::Loader loader(set, o);
          loader.seek(step * 2 + micro);
          const auto s = samples(loader.next(), 3);
          got.insert(got.end(), s.begin(), s.end());
        }
      EXPECT_EQ(got, data::global_batch_samples(50, 12, step, 5, shuffle)) << "step " << step;
    }
}

TEST(Loader, TheSameGlobalBatchForEveryNumberOfRanks) {
  const Numbers set(50);
  for (int64_t dp : {1, 2, 4}) {
    std::vector<int64_t> got;
    for (int64_t rank = 0; rank < dp; ++rank) {
      data::Loader loader(set, {.batch = 12 / dp,
                                .per_step = 1,
                                .dp = dp,
                                .rank = rank,
                                .seed = 5,
                                .workers = 1,
                                .prefetch = 1,
                                .shuffle = true});
      loader.seek(6);
      const auto s = samples(loader.next(), 12 / dp);
      got.insert(got.end(), s.begin(), s.end());
    }
    EXPECT_EQ(got, data::global_batch_samples(50, 12, 6, 5, true));
  }
}

TEST(Loader, AnEpochHoldsNoSampleTwiceAndEpochsDiffer) {
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t b = 0; b < 4; ++b) {
      const auto s = data::global_batch_samples(50, 12, epoch * 4 + b, 5, true);
      order.insert(order.end(), s.begin(), s.end());
    }
    const std::set<int64_t> unique(order.begin(), order.end());
    EXPECT_EQ(unique.size(), 48u);
    EXPECT_GE(*unique.begin(), 0);
    EXPECT_LT(*unique.rbegin(), 50);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u);
  std::vector<int64_t> first(12);
  std::iota(first.begin(), first.end(), 0);
  EXPECT_EQ(data::global_batch_samples(50, 12, 4, 5, false), first);
  EXPECT_NE(data::global_batch_samples(50, 12, 0, 5, true), data::global_batch_samples(50, 12, 0, 6, true));
}

TEST(Loader, SeekGoesAnywhereAtAnyMoment) {
  Numbers set(50);
  set.jitter = true;
  data::Loader plain(set, options(0));
  const auto want = take(plain, 60);
  for (int64_t workers : {0, 1, 3}) {
    data::Loader loader(set, options(workers));
    for (int i = 0; i < 30; ++i) {
      const int64_t at = random_int(0, 50);
      loader.seek(at);
      const int64_t n = random_int(0, 5);
      EXPECT_EQ(take(loader, n), std::vector(want.begin() + at, want.begin() + at + n)) << "at " << at;
    }
  }
}

TEST(Loader, TheLastBatchStaysUntouchedUntilTheNextCall) {
  const Numbers set(50);
  for (int64_t workers : {1, 4}) {
    data::Loader loader(set, options(workers, 1));
    for (int i = 0; i < 20; ++i) {
      const data::Batch b = loader.next();
      const auto before = samples(b, 3);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // lets the workers run ahead
      EXPECT_EQ(samples(b, 3), before);
    }
  }
}

TEST(Loader, ReadsAheadAsFarAsPrefetchSaysAndInParallel) {
  Numbers set(1000);
  set.together = 3;
  data::LoaderOptions o = options(3, 2);
  data::Loader loader(set, o);
  loader.next();
  for (int i = 0; i < 12'000 && set.reads < 3 * 7; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(set.reads, 3 * 7);  // the batch in use and 3 * 2 ahead
  EXPECT_EQ(set.most_at_once, 3);
  EXPECT_EQ(data::Loader::bytes(o, Numbers(1).tensors()), 7 * 2 * ((3 * 30 * 4 + 63) / 64 * 64));
  o.workers = 0;
  EXPECT_EQ(data::Loader::bytes(o, Numbers(1).tensors()), 2 * ((3 * 30 * 4 + 63) / 64 * 64));
}

TEST(Loader, AWorkersErrorReachesTheCallThatNeededTheSample) {
  const auto order = data::global_batch_samples(50, 12, 1, 5, true);
  const int64_t first = order[3],
                second = order[5];  // both in micro-batch 2 of rank 1 (step 1, micro-batch 0)
  for (int64_t workers : {0, 1, 4}) {
    Numbers set(50);
    set.jitter = true;
    set.bad = {first, second};
    data::Loader loader(set, options(workers));
    take(loader, 2);
    for (int twice = 0; twice < 2; ++twice) try {
        loader.next();
        ADD_FAILURE() << "no error";
      } catch (const ConfigError& e) {
        EXPECT_NE(std::string(e.what()).find("sample " + std::to_string(first) + " "), std::string::npos)
            << e.what();
      }
    loader.seek(3);  // past it
    EXPECT_NO_THROW(take(loader, 1));
  }
}

TEST(Loader, StopsCleanlyWhileWorkersRead) {
  Numbers set(50);
  set.pause_us = 300;
  for (int i = 0; i < 40; ++i) {
    data::Loader loader(set, options(1 + i % 4));
    if (i % 3) loader.next();
  }
  EXPECT_EQ(set.reading, 0);
}

TEST(Loader, TooFewSamplesAreAnError) {
  const Numbers set(11);
  expect_config_error([&] { data::Loader(set, options(0)); }, {"'train.global_batch'", "11 samples", "12"});
}

}  // namespace
}  // namespace isobar::test
