// Statistics are computed once for the same selection of the same files, and again when either changes.
#include "model/data/statistics/stats_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "model/base/system/files.h"
#include "model/data/choice/kept.h"
#include "model/data/statistics/stats.h"
#include "model/data/written/convert.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

/// $ISOBAR_CACHE_DIR for as long as a test lasts
class CacheHere {
 public:
  explicit CacheHere(const std::string& dir) {
    const char* before = std::getenv("ISOBAR_CACHE_DIR");
    before_ = before ? before : "";
    ::setenv("ISOBAR_CACHE_DIR", dir.c_str(), 1);
  }
  ~CacheHere() {
    before_.empty() ? ::unsetenv("ISOBAR_CACHE_DIR") : ::setenv("ISOBAR_CACHE_DIR", before_.c_str(), 1);
  }

 private:
  std::string before_;
};

/// Sets the files' times back
void settle(const std::string& path, int seconds_ago = 60) {
  const auto then = fs::file_time_type::clock::now() - std::chrono::seconds(seconds_ago);
  for (const auto& entry : fs::recursive_directory_iterator(
           fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path()))
    fs::last_write_time(entry.path(), then);
  fs::last_write_time(path, then);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // ctime, which cannot be set
}

size_t kept_in(const std::string& dir) {
  size_t n = 0;
  if (fs::exists(dir))
    for (const auto& entry : fs::directory_iterator(dir))
      n += entry.path().string().ends_with(".statistics.json");
  return n;
}

TEST(StatisticsCache, IsOfTheFilesAndOfWhatIsChosenOfThem) {
  const TempDir data, cache;
  const CacheHere here(cache / "kept");
  const std::string kept = cache / "kept";
  NetcdfOptions o{.order = "tzyx", .steps = 9, .levels = 2, .rows = 11, .columns = 13, .two = true};
  write_netcdf(data / "a.nc", o, {random_packed(o), random_packed(o)});
  data::convert(data / "a.nc", {}, data / "a.zarr", {.format = "zarr3"});
  for (const std::string& path : {data / "a.nc", data / "a.zarr"}) {
    fs::remove_all(kept);
    settle(path, 0);
    data::compute_statistics(path);  // it has just changed and may change again
    EXPECT_EQ(kept_in(kept), 0u);
    settle(path);
    const data::FileStatistics first = data::compute_statistics(path);
    EXPECT_EQ(kept_in(kept), 1u);
    const data::FileStatistics again = data::compute_statistics(path);
    EXPECT_EQ(kept_in(kept), 1u);
    EXPECT_EQ(again.mean, first.mean);
    EXPECT_EQ(again.std, first.std);
    EXPECT_EQ(again.channels, first.channels);
    // Each of these is another key.
    data::compute_statistics(path, {"t850"});
    EXPECT_EQ(kept_in(kept), 2u);
    data::FieldChoice region;
    region.region = {60, 0, 55, 5};
    data::compute_statistics(path, region);
    EXPECT_EQ(kept_in(kept), 3u);
    data::compute_statistics(path, {}, 4);
    EXPECT_EQ(kept_in(kept), 4u);
    const data::FileStatistics of_changes = data::compute_statistics(path, {}, 0, false, 2);
    EXPECT_EQ(kept_in(kept), 5u);
    EXPECT_NE(of_changes.mean, first.mean);
    settle(path, 120);  // another file
    data::compute_statistics(path);
    EXPECT_EQ(kept_in(kept), 6u);
  }
}

TEST(StatisticsCache, WhatIsKeptIsWhatIsReadAndWhatIsDamagedIsNot) {
  const TempDir data, cache;
  const CacheHere here(cache / "kept");
  NetcdfOptions o{.steps = 9, .rows = 11, .columns = 13};
  write_netcdf(data / "a.nc", o, {random_packed(o)});
  settle(data / "a.nc");
  const data::FileStatistics first = data::compute_statistics(data / "a.nc");
  const data::KeptStatistics kept(data / "a.nc", "", {}, {{"steps", 0}, {"dt", 0}});
  auto j = kept.find();
  ASSERT_TRUE(j);
  (*j)["mean"] = {7.5};
  data::write_kept(kept.file(), *j);
  EXPECT_EQ(data::compute_statistics(data / "a.nc").mean, std::vector<float>{7.5f});  // so the file is read
  const std::string whole = read_file(kept.file());
  const auto computed_again = [&](const std::string& bytes) {
    std::ofstream(kept.file(), std::ios::binary) << bytes;
    testing::internal::CaptureStderr();
    EXPECT_EQ(data::compute_statistics(data / "a.nc").mean, first.mean);
    EXPECT_EQ(testing::internal::GetCapturedStderr().substr(0, 8 + kept.file().size() + 12),
              "isobar: " + kept.file() + " is damaged ");
    testing::internal::CaptureStderr();
    EXPECT_EQ(data::compute_statistics(data / "a.nc").mean, first.mean);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  };
  for (int n = 0; n < 40; ++n) {
    std::string bytes = whole;
    const size_t at = rng()() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (rng()() % 8)));
    computed_again(bytes);
    computed_again(whole.substr(0, rng()() % whole.size()));
  }
  // Invalid statistics with valid digests.
  for (const nlohmann::json& odd : {nlohmann::json(1),
                                    {{"mean", 1}, {"std", 2}},
                                    {{"mean", {1}}, {"std", {"x"}}},
                                    {{"mean", {1}}, {"std", {1, 2}}},
                                    {{"mean", {1}}, {"std", {1}}}}) {
    data::write_kept(kept.file(), odd);
    computed_again(read_file(kept.file()));
  }
}

// A replaced file of the same size and mtime once gave the old statistics.
TEST(StatisticsCache, AFileReplacedWithTheSameSizeAndTimeIsAnother) {
  const TempDir data, cache;
  const CacheHere here(cache / "kept");
  NetcdfOptions o{.steps = 9, .rows = 11, .columns = 13};
  for (const char* name : {"a.nc", "b.nc"}) write_netcdf(data / name, o, {random_packed(o)});
  settle(data / "a.nc");
  const data::FileStatistics first = data::compute_statistics(data / "a.nc"),
                             second = data::compute_statistics(data / "b.nc");
  ASSERT_NE(first.mean, second.mean);
  ASSERT_EQ(fs::file_size(data / "a.nc"), fs::file_size(data / "b.nc"));
  const auto then = fs::last_write_time(data / "a.nc");
  for (const bool in_place : {true, false}) {
    if (in_place) {
      const std::string bytes = read_file(data / "b.nc");
      std::ofstream(data / "a.nc", std::ios::binary) << bytes;
    } else {
      fs::copy_file(data / "b.nc", data / "c.nc");
      fs::rename(data / "c.nc", data / "a.nc");
    }
    fs::last_write_time(data / "a.nc", then);
    settle(data / "b.nc");
    EXPECT_EQ(data::compute_statistics(data / "a.nc").mean, second.mean);
  }
}

TEST(StatisticsCache, ARunsStatisticsAreKept) {
  const TempDir data, cache;
  const CacheHere here(cache / "kept");
  NetcdfOptions o{.steps = 30, .rows = 16, .columns = 24};
  write_netcdf(data / "a.nc", o, {random_packed(o)});
  settle(data / "a.nc");
  DataSpec d;
  d.train = data / "a.nc", d.train_fraction = 0.5;
  const data::SampleShape shape(data::FieldShape{1, 16, 24});
  const data::Statistics first = data::begin_statistics(d, shape)();
  EXPECT_EQ(kept_in(cache / "kept"), 1u);
  const data::Statistics again = data::begin_statistics(d, shape)();
  EXPECT_EQ(again.mean, first.mean);
  EXPECT_EQ(again.std, first.std);
  d.train_fraction = 0.8;
  EXPECT_NE(data::begin_statistics(d, shape)().mean, first.mean);
  EXPECT_EQ(kept_in(cache / "kept"), 2u);
  const data::SampleShape cropped(data::FieldShape{1, 8, 24});
  EXPECT_NE(data::begin_statistics(d, cropped)().mean, first.mean);
  EXPECT_EQ(kept_in(cache / "kept"), 3u);
}

}  // namespace
}  // namespace isobar::test
