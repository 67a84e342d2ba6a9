// Synthetic data, statistics, .npy files, noise and inspect.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/base/system/files.h"
#include "model/data/dataset.h"
#include "model/data/fields/field_file.h"
#include "model/data/files/netcdf/hdf5_writer.h"
#include "model/data/files/npy.h"
#include "model/data/statistics/stats.h"
#include "model/data/synthetic/synth.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

const data::SyntheticOptions kSmall{
    .train_years = 2, .samples_per_year = 12, .channels = 20, .height = 24, .width = 36, .seed = 3};

TEST(Npy, RoundTripsAndRefusesTheRest) {
  TempDir dir;
  const auto values = random_floats(6);
  data::write_npy(dir / "a.npy", {1, 6, 1, 1}, values);
  const data::NpyArray a = data::read_npy(dir / "a.npy", "k");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{1, 6, 1, 1}));
  ASSERT_EQ(a.values.size(), 6u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(a.values[i], static_cast<double>(values[i]));
  EXPECT_EQ((read_file(dir / "a.npy").size() - 24) % 64, 0u);  // NumPy aligns the data to 64 bytes

  const auto put = [&](const std::string& header, const std::string& data, int version = 1) {
    std::string bytes = "\x93NUMPY";
    bytes += static_cast<char>(version);
    bytes += '\0';
    const auto n = static_cast<uint32_t>(header.size());
    bytes.append(reinterpret_cast<const char*>(&n), version == 1 ? 2 : 4);
    std::ofstream(dir / "b.npy", std::ios::binary) << bytes << header << data;
  };
  const auto header = [](const std::string& d, const std::string& order, const std::string& shape) {
    return "{'descr': '" + d + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  };
  const double d[2] = {1.25, -3e100};
  const std::string two(reinterpret_cast<const char*>(d), 16);
  for (int version : {1, 2}) {
    put(header("<f8", "False", "(2,)"), two, version);
    EXPECT_EQ(data::read_npy(dir / "b.npy", "k").values, (std::vector<double>{1.25, -3e100}));
  }
  put(header("<f8", "True", "(1, 2)"), two);  // one long axis: both orders are the same
  EXPECT_EQ(data::read_npy(dir / "b.npy", "k").values.size(), 2u);
  const auto refused = [&](const std::string& part) {
    expect_config_error([&] { data::read_npy(dir / "b.npy", "data.stds"); }, {"b.npy", "'data.stds'", part});
  };
  const float f[6] = {1, 4, 2, 5, 3, 6};
  put(header("<f4", "True", "(2, 3)"), {reinterpret_cast<const char*>(f), sizeof f});
  EXPECT_EQ(data::read_npy(dir / "b.npy", "k").values, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  put(header("<f8", "None", "(2,)"), two);
  refused("order");
  const std::string turned(two.rbegin(), two.rend());
  put(header(">f8", "False", "(2,)"), turned);
  EXPECT_EQ(data::read_npy(dir / "b.npy", "k").values, (std::vector<double>{-3e100, 1.25}));
  put(header("<i2", "False", "(8,)"), std::string("\x01\x00\xff\xff", 4) + std::string(12, '\0'));
  EXPECT_EQ(data::read_npy(dir / "b.npy", "k").values, (std::vector<double>{1, -1, 0, 0, 0, 0, 0, 0}));
  put(header("<c16", "False", "(1,)"), two);
  refused("<c16");
  put(header("|S8", "False", "(2,)"), two);
  refused("|S8");
  put(header("<f8", "False", "(3,)"), two);
  refused("16 bytes");
  put(header("<f8", "False", "(99999999999, 99999999999, 9)"), two);
  refused("bytes");
  std::ofstream(dir / "b.npy") << "hello";
  refused("not a .npy");
}

TEST(Statistics, EqualANaiveLongDoubleSum) {
  TempDir dir;
  fs::create_directories(dir / "set");
  std::vector<std::vector<float>> years;
  for (int y = 0; y < 2; ++y) {
    years.push_back(random_floats(6 * 2 * 12, 1e5, 3));  // mean far above std: a sum of squares would cancel
    write_hdf5(dir / ("set/201" + std::to_string(y) + ".h5"), {6, 2, 3, 4}, years.back());
  }
  const data::Statistics s = data::compute_statistics(dir / "set");
  for (int64_t c = 0; c < 2; ++c) {
    long double n = 0, sum = 0, square = 0;
    const auto each = [&](auto f) {
      for (const auto& y : years)
        for (int64_t t = 0; t < 6; ++t)
          for (int64_t i = 0; i < 12; ++i) f(y[(t * 2 + c) * 12 + i]);
    };
    each([&](float x) { sum += x, n += 1; });
    each([&](float x) { square += (x - sum / n) * (x - sum / n); });
    EXPECT_FLOAT_EQ(s.mean[c], static_cast<float>(sum / n));
    EXPECT_FLOAT_EQ(s.std[c], static_cast<float>(std::sqrt(square / n)));
  }
  data::write_statistics(dir / "stats", s);
  const data::Statistics back =
      data::read_statistics(dir / "stats/global_means.npy", dir / "stats/global_stds.npy", 2);
  EXPECT_EQ(back.mean, s.mean);
  EXPECT_EQ(back.std, s.std);
}

TEST(Synthetic, WritesACompleteSetThatOpens) {
  TempDir dir;
  for (int deflate : {0, 1}) {
    data::SyntheticOptions o = kSmall;
    o.deflate = deflate;
    const std::string set_dir = dir / ("set" + std::to_string(deflate));
    data::make_synthetic(set_dir, o);
    DataSpec d;
    d.train = set_dir + "/train";
    d.means = set_dir + "/stats/global_means.npy";
    d.stds = set_dir + "/stats/global_stds.npy";
    const data::FieldShape shape{20, 24, 32};
    const auto set = data::open_dataset(d, d.train, data::Split::train, shape);
    EXPECT_EQ(set->size(), 24);
    EXPECT_EQ(set->channels().inputs[2], "t2m");
    EXPECT_EQ(set->channels().inputs[19], "tcwv");
    EXPECT_EQ(data::open_dataset(d, set_dir + "/valid", data::Split::valid, shape)->size(), 12);
    EXPECT_EQ(data::open_dataset(d, set_dir + "/test", data::Split::valid, shape)->size(), 12);
    std::vector<float> a(shape.size(), NAN), b(shape.size(), NAN);
    set->read(3, a.data(), b.data());
    const data::NpyArray means = data::read_npy(set_dir + "/stats/time_means.npy", "");
    EXPECT_EQ(means.shape, (std::vector<int64_t>{1, 20, 24, 36}));
  }
  EXPECT_EQ(data::compute_statistics(dir / "set0/train").mean,
            data::compute_statistics(dir / "set1/train").mean);
}

TEST(Synthetic, StatesFollowFromEachOtherAndDifferFromPersistence) {
  const data::FieldShape shape{20, 24, 36};
  const data::SyntheticAtmosphere atmosphere(shape, 1), other(shape, 2);
  std::vector<float> now(shape.size(), NAN), next(shape.size(), NAN), later(shape.size(), NAN),
      again(shape.size(), NAN);
  atmosphere.at(1000, now.data());
  atmosphere.at(1006, next.data());
  atmosphere.at(1000 + 24 * 20, later.data());
  atmosphere.at(1000, again.data());
  EXPECT_EQ(now, again);
  other.at(1000, again.data());
  EXPECT_NE(now, again);
  const int64_t plane = shape.height * shape.width;
  for (int64_t c = 0; c < shape.channels; ++c) {
    double change = 0, drift = 0, rough = 0, mean = 0, square = 0;
    for (int64_t i = 0; i < plane; ++i) {
      const int64_t k = c * plane + i;
      ASSERT_TRUE(std::isfinite(now[k]));
      change += std::pow(next[k] - now[k], 2);
      drift += std::pow(later[k] - now[k], 2);
      if (i % shape.width) rough += std::pow(now[k] - now[k - 1], 2);
      mean += now[k] / static_cast<double>(plane);
    }
    for (int64_t i = 0; i < plane; ++i) square += std::pow(now[c * plane + i] - mean, 2);
    EXPECT_LT(change, 0.5 * drift) << atmosphere.names()[c];    // six hours change less than twenty days
    EXPECT_GT(change, 0.005 * drift) << atmosphere.names()[c];  // and yet something that can be learnt
    EXPECT_LT(rough, square) << atmosphere.names()[c];          // smooth from column to column
  }
}

TEST(Synthetic, SecondCallReusesAndForeignDirectoriesAreLeftAlone) {
  TempDir dir;
  data::make_synthetic(dir / "set", kSmall);
  const auto time = fs::last_write_time(dir / "set/train/2015.h5");
  const std::string bytes = read_file(dir / "set/train/2016.h5");
  fs::remove(dir / "set/train/2016.h5");
  data::make_synthetic(dir / "set", kSmall);  // as after a kill: only missing files are written
  EXPECT_EQ(fs::last_write_time(dir / "set/train/2015.h5"), time);
  EXPECT_EQ(data::compute_statistics(dir / "set/train").mean.size(), 20u);
  EXPECT_EQ(read_file(dir / "set/train/2016.h5").size(), bytes.size());
  data::SyntheticOptions o = kSmall;
  o.seed = 4;
  expect_config_error([&] { data::make_synthetic(dir / "set", o); },
                      {dir / "set", "other options", "--force"});
  o.force = true;
  o.channels = 3;
  data::make_synthetic(dir / "set", o);
  EXPECT_EQ(data::open_fields(dir / "set/train", "", {})[0]->info().channels,
            (std::vector<std::string>{"u10", "v10", "t2m"}));
  fs::create_directories(dir / "mine");
  std::ofstream(dir / "mine/thesis.tex") << "x";
  expect_config_error([&] { data::make_synthetic(dir / "mine", kSmall); }, {"not empty"});
  o.height = 1;
  expect_config_error([&] { data::make_synthetic(dir / "new", o); }, {"'height, width'"});
  o = kSmall;
  o.height = o.width = 1000000;
  expect_config_error([&] { data::make_synthetic(dir / "huge", o); }, {"GB"});
}

TEST(Synthetic, AnUnfinishedFileNeverShows) {
  TempDir dir;
  {
    data::FieldsWriter w(dir / "2015.h5", 3, {1, 2, 2}, {"a"}, {"K"}, 0);
    const std::vector<float> x(4);
    w.append(x.data());
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Noise, IsTheSameEveryTimeSmoothAndCorrelatedInTime) {
  const data::FieldShape shape{4, 60, 90};
  DataSpec d;
  const auto set = data::open_dataset(d, "", data::Split::train, shape),
             same = data::open_dataset(d, "", data::Split::train, shape),
             valid = data::open_dataset(d, "", data::Split::valid, shape);
  EXPECT_EQ(set->size(), 64);
  d.limit_samples = 7;
  EXPECT_EQ(data::open_dataset(d, "", data::Split::train, shape)->size(), 7);
  std::vector<float> a(shape.size(), NAN), b(shape.size(), NAN), a2(shape.size(), NAN), b2(shape.size(), NAN);
  double mean = 0, square = 0, product = 0, rough = 0, n = 0;
  for (int64_t i = 0; i < 64; ++i) {
    set->read(i, a.data(), b.data());
    for (size_t k = 0; k < a.size(); ++k) {
      mean += a[k], square += a[k] * a[k], product += a[k] * b[k], ++n;
      if (k % 90) rough += std::pow(a[k] - a[k - 1], 2);
    }
  }
  EXPECT_NEAR(mean / n, 0, 0.1);
  EXPECT_NEAR(square / n, 1, 0.35);
  EXPECT_NEAR(product / square, 0.67, 0.1);
  EXPECT_LT(rough / square, 0.5);
  same->read(63, a2.data(), b2.data());
  EXPECT_EQ(a, a2);
  EXPECT_EQ(b, b2);
  set->read(62, a2.data(), b2.data());
  EXPECT_EQ(a, b2);  // the target of one sample is the input of the next
  valid->read(63, a2.data(), b2.data());
  EXPECT_NE(a, a2);
}

TEST(Inspect, TellsWhatTheFilesHold) {
  TempDir dir;
  data::make_synthetic(dir / "set", kSmall);
  const nlohmann::json j = data::inspect(dir / "set/train", {}, 2);
  EXPECT_EQ(j["format"], "HDF5 fields");
  EXPECT_EQ(j["files"], 2);
  EXPECT_EQ(j["steps"], 24);
  EXPECT_EQ(j["samples"], 24);
  EXPECT_EQ(j["pairs"], 20);
  EXPECT_EQ(j["channels"], 20);
  EXPECT_EQ(j["fields"][2]["name"], "t2m");
  EXPECT_EQ(j["fields"][2]["units"], "K");
  EXPECT_EQ(j["layout"]["storage"], "contiguous");
  EXPECT_NE(data::inspect_text(j).find("24 rows x 36 columns, 20 channels"), std::string::npos)
      << data::inspect_text(j);

  NetcdfOptions o{.steps = 8, .south_first = true, .deflate = 2, .chunk = {4, 4, 6}};
  const Packed p = random_packed(o);
  write_netcdf(dir / "a.nc", o, {p});
  const nlohmann::json n = data::inspect(dir / "a.nc", {}, 3);
  EXPECT_EQ(n["format"], "netCDF-4");
  EXPECT_EQ(n["pairs"], 5);
  EXPECT_EQ(n["first_time"], "2019-03-01T00:00Z");
  EXPECT_EQ(n["last_time"], "2019-03-01T07:00Z");
  EXPECT_EQ(n["latitude"], (std::vector<double>{53, 50}));
  EXPECT_EQ(n["layout"]["filters"], (std::vector<std::string>{"shuffle", "deflate 2"}));
  EXPECT_EQ(n["steps_per_chunk"], 4);
  EXPECT_TRUE(n.contains("advice"));
  EXPECT_FLOAT_EQ(n["fields"][0]["min"].get<float>(),
                  static_cast<float>(*std::min_element(p.begin(), p.begin() + 24) * 0.01 + 280));
}

// Calibration names files without data.train: the statistics are then those of these files.
TEST(Statistics, OfFilesThatAreNotDataTrainAreComputedFromThem) {
  TempDir dir;
  data::SyntheticOptions options = kSmall;
  options.show_progress = false;
  data::make_synthetic(dir / "data", options);
  const data::FieldShape shape{kSmall.channels, kSmall.height, kSmall.width};
  DataSpec named;
  named.train = dir / "data/train";
  EXPECT_FALSE(data::needs_statistics({}, shape));
  EXPECT_TRUE(data::needs_statistics(named, shape));
  const data::Statistics begun = data::begin_statistics(named, shape)();
  const auto unnamed = data::open_dataset({}, named.train, data::Split::train, shape);
  const auto known = data::open_dataset(named, named.train, data::Split::train, shape, &begun);
  std::vector<float> input[2], target[2];
  for (int i = 0; i < 2; ++i) {
    input[i].resize(shape.size()), target[i].resize(shape.size());
    (i == 0 ? unnamed : known)->read(0, input[i].data(), target[i].data());
  }
  EXPECT_EQ(input[0], input[1]);
  EXPECT_EQ(target[0], target[1]);
}

}  // namespace
}  // namespace isobar::test
