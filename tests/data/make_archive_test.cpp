// The synthetic archive: equal for one seed in every format, with land, ice and gaps as documented, and
// readable like any archive.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/base/system/files.h"
#include "model/data/dataset.h"
#include "model/data/fields/field_file.h"
#include "model/data/synthetic/synth_archive.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

const data::ArchiveOptions kLittle{.steps = 9, .height = 16, .width = 24, .missing = 0.1, .seed = 5};

std::vector<float> all_of(const std::string& path, const std::vector<std::string>& names) {
  const data::FieldFiles files = data::open_fields(path, "", names);
  const data::FieldInfo& info = files[0]->info();
  std::vector<float> out;
  for (int64_t t = 0; t < info.steps; ++t) {
    out.resize(out.size() + static_cast<size_t>(info.shape.size()));
    files[0]->read_with_gaps(t, info.shape, out.data() + t * info.shape.size());
  }
  return out;
}

std::vector<std::string> names_in_order() {
  std::vector<std::string> names;
  for (const char* v : {"z", "u", "v", "t", "q"})
    for (const int64_t hpa : data::archive_levels()) names.push_back(v + std::to_string(hpa));
  return names;
}

TEST(MakeArchive, IsTheSameInEveryFormatAndForOneSeed) {
  const TempDir dir;
  const std::vector<std::string> single = {"t2m", "u10", "v10", "msl", "siconc", "sst"};
  std::vector<float> levels, surface;
  for (const char* format : {"netcdf4", "netcdf3", "zarr2", "zarr3"}) {
    data::ArchiveOptions o = kLittle;
    o.format = format;
    const data::ArchivePaths made = data::make_archive(dir / format, o);
    const std::vector<float> a = all_of(made.levels, names_in_order()), b = all_of(made.single, single);
    ASSERT_EQ(a.size(), 9u * 5 * data::archive_levels().size() * 16 * 24);
    if (levels.empty()) levels = a, surface = b;
    EXPECT_EQ(std::memcmp(a.data(), levels.data(), a.size() * sizeof(float)), 0) << format;
    ASSERT_EQ(b.size(), surface.size());
    for (size_t i = 0; i < b.size(); ++i)
      ASSERT_TRUE(b[i] == surface[i] || (std::isnan(b[i]) && std::isnan(surface[i]))) << format;
  }
  expect_config_error([&] { data::make_archive(dir / "zarr2", {.format = "zarr2"}); },
                      {"levels.zarr", "there already"});
  data::ArchiveOptions other = kLittle;
  other.seed = 6;
  const std::vector<float> of_another =
      all_of(data::make_archive(dir / "other", other).levels, names_in_order());
  EXPECT_NE(std::memcmp(of_another.data(), levels.data(), levels.size() * sizeof(float)), 0);
  for (const float x : levels) ASSERT_TRUE(std::isfinite(x));
}

TEST(MakeArchive, HasLandIceGapsAndColdTops) {
  const TempDir dir;
  const data::ArchivePaths made = data::make_archive(dir / "a", kLittle);
  data::FieldChoice choice({"siconc", "sst"});
  choice.static_fields = {"lsm", "ocean", "orography"}, choice.mask = "missing";
  const data::FieldFiles files = data::open_fields(made.single, "", choice);
  const data::FieldInfo& info = files[0]->info();
  const int64_t plane = info.shape.height * info.shape.width;
  std::vector<float> x(static_cast<size_t>(info.shape.size()));
  double land = 0, unseen = 0, sea = 0, ice = 0;
  for (int64_t t = 0; t < info.steps; ++t) {
    files[0]->read_with_gaps(t, info.shape, x.data());
    for (int64_t i = 0; i < plane; ++i) {
      const bool on_land = x[2 * plane + i] == 1;
      EXPECT_EQ(x[3 * plane + i], on_land ? 0 : 1);
      EXPECT_EQ(x[4 * plane + i] > 0, on_land);
      EXPECT_EQ(std::isnan(x[i]), on_land);
      if (on_land) {
        EXPECT_TRUE(std::isnan(x[plane + i]));
      }
      land += on_land, sea += !on_land;
      if (on_land) continue;
      unseen += std::isnan(x[plane + i]);
      EXPECT_GE(x[i], 0);
      EXPECT_LE(x[i], 1);
      ice += x[i] > 0;
    }
  }
  EXPECT_GT(land / (land + sea), 0.05);
  EXPECT_LT(land / (land + sea), 0.7);
  EXPECT_NEAR(unseen / sea, kLittle.missing, 5 * std::sqrt(0.09 / sea));
  EXPECT_GT(ice / sea, 0.02);
  EXPECT_LT(ice / sea, 0.6);

  // Means by level: geopotential falls with pressure; air is coldest near the tropopause and dry above.
  const data::FieldFiles upper = data::open_fields(made.levels, "", {});
  const data::FieldInfo& of = upper[0]->info();
  ASSERT_EQ(of.channels.size(), 65u);
  std::vector<float> fields(static_cast<size_t>(of.shape.size()));
  upper[0]->read(3, of.shape, nullptr, fields.data());
  const auto mean = [&](const std::string& name) {
    const auto c = std::find(of.channels.begin(), of.channels.end(), name) - of.channels.begin();
    double sum = 0;
    for (int64_t i = 0; i < plane; ++i) sum += static_cast<double>(fields[c * plane + i]);
    return sum / static_cast<double>(plane);
  };
  const std::vector<int64_t>& hpa = data::archive_levels();
  for (size_t l = 1; l < hpa.size(); ++l) {
    EXPECT_GT(mean("z" + std::to_string(hpa[l - 1])), mean("z" + std::to_string(hpa[l])));
    EXPECT_LE(mean("q" + std::to_string(hpa[l - 1])), 1.02 * mean("q" + std::to_string(hpa[l])));
  }
  EXPECT_GT(mean("t1000"), mean("t500"));
  EXPECT_GT(mean("t500"), mean("t200"));
  EXPECT_LT(mean("q1000"), 0.03);
}

TEST(MakeArchive, IsJoinedAndMaskedAsAnyArchive) {
  const TempDir dir;
  const data::ArchivePaths made = data::make_archive(dir / "a", kLittle);
  DataSpec d;
  d.train = made.levels + "," + made.single;
  d.variables = {"z@500,850", "t2m", "sst"}, d.static_fields = {"lsm", "orography"}, d.mask = "missing";
  data::SampleShape shape(data::FieldShape{6, 16, 24}, data::FieldShape{4, 16, 24});
  shape.masked = true;
  const auto set = data::open_dataset(d, d.train, data::Split::train, shape);
  EXPECT_EQ(set->size(), 8);
  EXPECT_EQ(set->channels().inputs,
            (std::vector<std::string>{"z500", "z850", "t2m", "sst", "lsm", "orography"}));
  std::vector<float> input(6 * 16 * 24), target(4 * 16 * 24), mask(4 * 16 * 24);
  float* to[] = {input.data(), target.data(), mask.data()};
  ASSERT_EQ(set->tensors().size(), 3u);
  EXPECT_EQ(set->tensors()[2].name, "mask");
  set->read_tensors(3, to);
  const std::vector<float> sst = all_of(made.single, {"sst"});
  for (int64_t i = 0; i < 16 * 24; ++i) {
    for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(mask[c * 16 * 24 + i], 1);
    EXPECT_EQ(mask[3 * 16 * 24 + i], std::isnan(sst[4 * 16 * 24 + i]) ? 0 : 1);
    if (std::isnan(sst[4 * 16 * 24 + i])) {
      EXPECT_EQ(target[3 * 16 * 24 + i], 0);
    }
    if (std::isnan(sst[3 * 16 * 24 + i])) {
      EXPECT_EQ(input[3 * 16 * 24 + i], 0);
    }
  }
  // A channel without any valid point in a step has no defined error.
  data::ArchiveOptions blind = kLittle;
  blind.missing = 0.999999;
  d.train = data::make_archive(dir / "b", blind).single;
  d.variables = {"t2m", "sst"}, d.static_fields = {};
  data::SampleShape two(data::FieldShape{2, 16, 24});
  two.masked = true;
  const data::Statistics any{{0, 0}, {1, 1}};
  const auto empty = data::open_dataset(d, d.train, data::Split::train, two, &any);
  std::vector<float> a(2 * 16 * 24), b(a.size()), c(a.size());
  float* places[] = {a.data(), b.data(), c.data()};
  expect_config_error([&] { empty->read_tensors(0, places); },
                      {"single.nc", "time step 1, channel 'sst'", "every value is missing"});
}

}  // namespace
}  // namespace isobar::test
