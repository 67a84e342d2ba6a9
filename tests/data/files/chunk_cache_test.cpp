// When threads need the same chunk at once, one decodes it for all.
#include "model/data/fields/chunk_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "model/data/written/convert.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

TEST(ChunkCache, OneDecodesForAllThatWait) {
  data::ChunkCache cache(1 << 20);
  std::atomic<int> decoded{0}, right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int64_t key = 0; key < 20; ++key) {
        const auto bytes = cache.find_or({&cache, key}, [&] {
          ++decoded;
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          return std::make_shared<std::vector<std::byte>>(100, static_cast<std::byte>(key));
        });
        right += bytes->size() == 100 && bytes->at(50) == static_cast<std::byte>(key);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(decoded, 20);
  EXPECT_EQ(right, 8 * 20);
}

TEST(ChunkCache, WhatDoesNotDecodeIsAnErrorToEachAndWhatIsTooLargeIsDecodedByEach) {
  data::ChunkCache cache(50);
  std::atomic<int> failed{0}, decoded{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      try {
        cache.find_or({&cache, 1}, [&]() -> data::ChunkCache::Bytes { throw std::runtime_error("torn"); });
      } catch (const std::runtime_error&) {
        ++failed;
      }
      cache.find_or({&cache, 2}, [&] {
        ++decoded;
        return std::make_shared<std::vector<std::byte>>(100);
      });
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed, 4);
  EXPECT_EQ(decoded, 4);
}

// Fields, and the first of several errors, do not depend on the thread or on the run it begins with.
TEST(ChunkCache, ThreadsShareChunksOfManySteps) {
  const TempDir dir;
  NetcdfOptions o{.order = "tzyx", .steps = 24, .levels = 4, .rows = 20, .columns = 30, .two = true};
  write_netcdf(dir / "a.nc", o, {random_packed(o), random_packed(o)});
  data::convert(dir / "a.nc", {}, dir / "a.zarr", {.format = "zarr2", .chunks = {.steps = 8}});
  const std::vector<std::string> names = {"t1000", "t850", "t500", "t250", "q1000", "q850", "q500", "q250"};
  const data::FieldFiles whole = data::open_fields(dir / "a.nc", "", names),
                         shared = data::open_fields(dir / "a.zarr", "", names);
  const data::FieldShape shape = whole[0]->info().shape;
  std::atomic<int> wrong{0};
  const auto each = [&](const auto& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) threads.emplace_back(body);
    for (std::thread& t : threads) t.join();
  };
  each([&] {
    std::vector<float> a(static_cast<size_t>(shape.size())), b(a.size());
    for (int64_t t = 0; t < 24; ++t) {
      whole[0]->read(t, shape, nullptr, a.data()), shared[0]->read(t, shape, nullptr, b.data());
      wrong += a != b;
    }
  });
  EXPECT_EQ(wrong, 0);
  for (const char* torn : {"t850", "q500"})
    fs::resize_file(dir / ("a.zarr/" + std::string(torn) + "/1.0.0"), 9);
  const data::FieldFiles damaged = data::open_fields(dir / "a.zarr", "", names);
  std::atomic<int> told{0};
  each([&] {
    std::vector<float> b(static_cast<size_t>(shape.size()));
    try {
      damaged[0]->read(9, shape, nullptr, b.data());
    } catch (const ConfigError& e) {
      told += std::string(e.what()).find("channel 't850'") != std::string::npos;
    }
  });
  EXPECT_EQ(told, 6);
}

}  // namespace
}  // namespace isobar::test
