// The NERSC layout: pairs of an index, crops, statistics, and errors in a directory.
#include <gtest/gtest.h>

#include <cmath>

#include "model/data/dataset.h"
#include "model/data/files/npy.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

constexpr data::FieldShape kNerscShape{3, 4, 6};

/// Writes one year and returns its data.
std::vector<float> write_year(const TempDir& dir, const std::string& name, int64_t steps,
                              data::FieldShape s = kNerscShape, const Hdf5Options& o = {}) {
  auto data = random_floats(steps * s.size(), 10, 3);
  write_hdf5(dir / name,
             {static_cast<hsize_t>(steps), static_cast<hsize_t>(s.channels), static_cast<hsize_t>(s.height),
              static_cast<hsize_t>(s.width)},
             data, o);
  return data;
}

DataSpec spec_for(const TempDir& dir, int64_t channels = 3) {
  data::write_npy(dir / "m.npy", {1, channels, 1, 1}, std::vector<float>(channels, 0));
  data::write_npy(dir / "s.npy", {1, channels, 1, 1}, std::vector<float>(channels, 1));
  DataSpec d;
  d.train = dir.path();
  d.means = dir / "m.npy";
  d.stds = dir / "s.npy";
  return d;
}

struct Pair {
  std::vector<float> input, target;
};

Pair read(const data::Dataset& set, int64_t i) {
  Pair p{std::vector<float>(set.shape().input.size(), NAN),
         std::vector<float>(set.shape().input.size(), NAN)};
  set.read(i, p.input.data(), p.target.data());
  return p;
}

TEST(Nersc, PairsNeverCrossYearsAndFollowTheNerscIndex) {
  TempDir dir;
  const int64_t steps[] = {11, 7, 9};  // years of unequal length, listed by name and not by time of writing
  std::vector<std::vector<float>> years(3);
  years[1] = write_year(dir, "x_2016.h5", steps[1]);
  years[0] = write_year(dir, "x_2015.h5", steps[0]);
  years[2] = write_year(dir, "x_2017.h5", steps[2]);
  for (int64_t dt : {1, 2}) {
    DataSpec d = spec_for(dir);
    d.dt = dt;
    const auto set = data::open_dataset(d, d.train, data::Split::train, kNerscShape);
    ASSERT_EQ(set->size(), 27);
    int64_t i = 0;
    for (int y = 0; y < 3; ++y)
      for (int64_t k = 0; k < steps[y]; ++k, ++i) {
        int64_t t = k % (steps[y] - dt);  // the NERSC loader's arithmetic
        if (t < dt) t += dt;
        const Pair p = read(*set, i);
        const auto at = [&](int64_t step) { return years[y].begin() + step * kNerscShape.size(); };
        ASSERT_TRUE(std::equal(p.input.begin(), p.input.end(), at(t))) << i;
        ASSERT_TRUE(std::equal(p.target.begin(), p.target.end(), at(t + dt))) << i;
      }
  }
}

TEST(Nersc, LimitTakesTheFirstSamples) {
  TempDir dir;
  write_year(dir, "2015.h5", 9);
  DataSpec d = spec_for(dir);
  d.limit_samples = 4;
  d.limit_valid_samples = 2;
  EXPECT_EQ(data::open_dataset(d, d.train, data::Split::train, kNerscShape)->size(), 4);
  EXPECT_EQ(data::open_dataset(d, d.train, data::Split::valid, kNerscShape)->size(), 2);
  d.limit_samples = 400;
  EXPECT_EQ(data::open_dataset(d, d.train, data::Split::train, kNerscShape)->size(), 9);
}

TEST(Nersc, CropsTheFirstRowsAndColumnsAndNormalisesPerChannel) {
  TempDir dir;
  const data::FieldShape big{3, 9, 13};
  const Hdf5Options layouts[] = {{},
                                 {.chunk = {1, 1, 9, 13}, .shuffle = true, .deflate = 2},
                                 {.chunk = {2, 3, 4, 5}},
                                 {.type = H5T_IEEE_F64BE}};
  for (const Hdf5Options& layout : layouts) {
    const auto data = write_year(dir, "2015.h5", 5, big, layout);
    DataSpec d = spec_for(dir);
    const std::vector<float> mean = {9, 10.5f, -3}, std = {0.5f, 2, 7};
    data::write_npy(d.means, {1, 3, 1, 1}, mean);
    data::write_npy(d.stds, {1, 3, 1, 1}, std);
    const auto set = data::open_dataset(d, d.train, data::Split::train, kNerscShape);
    const Pair p = read(*set, 2);
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t w = 0; w < 6; ++w) {
          const auto want = [&](int64_t t) {
            return (data[((t * 3 + c) * 9 + h) * 13 + w] - mean[c]) / std[c];
          };
          ASSERT_EQ(p.input[(c * 4 + h) * 6 + w], want(2));
          ASSERT_EQ(p.target[(c * 4 + h) * 6 + w], want(3));
        }
  }
}

TEST(Nersc, StatisticsComeFromTheTrainingSetWhenNoneAreGiven) {
  TempDir dir;
  fs::create_directories(dir / "train");
  fs::create_directories(dir / "valid");
  const auto data = random_floats(8 * 3 * 24, 5, 2), other = random_floats(8 * 3 * 24, -50, 9);
  write_hdf5(dir / "train/2015.h5", {8, 3, 4, 6}, data);
  write_hdf5(dir / "valid/2016.h5", {8, 3, 4, 6}, other);
  DataSpec d;
  d.train = dir / "train";
  d.valid = dir / "valid";
  const auto set = data::open_dataset(d, d.valid, data::Split::valid, kNerscShape);
  const Pair p = read(*set, 1);
  for (int64_t c = 0; c < 3; ++c) {
    long double sum = 0, square = 0;
    for (int64_t t = 0; t < 8; ++t)
      for (int64_t i = 0; i < 24; ++i) sum += data[(t * 3 + c) * 24 + i];
    const long double mean = sum / 192;
    for (int64_t t = 0; t < 8; ++t)
      for (int64_t i = 0; i < 24; ++i)
        square += (data[(t * 3 + c) * 24 + i] - mean) * (data[(t * 3 + c) * 24 + i] - mean);
    const auto want = static_cast<double>((other[(1 * 3 + c) * 24] - mean) / std::sqrt(square / 192));
    EXPECT_NEAR(p.input[c * 24], want, 1e-4);
  }
}

// Forcings are only inputs and diagnosed variables only targets, in any order.
TEST(Nersc, InputsAndTargetsAreTheChannelsThatAreNamed) {
  TempDir dir;
  fs::create_directories(dir / "set");
  const std::vector<float> fields = random_floats(5 * 3 * 24);
  write_hdf5(dir / "set/2015.h5", {5, 3, 4, 6}, fields);
  DataSpec d;
  d.train = dir / "set";
  const auto whole = data::open_dataset(d, d.train, data::Split::train, kNerscShape);
  const std::vector<std::string> names = whole->channels().inputs;
  std::vector<float> input(72), target(72), chosen(48), one(24);
  d.inputs = {names[2], names[0]};
  d.targets = {names[1]};
  const auto set = data::open_dataset(d, d.train, data::Split::train, {{2, 4, 6}, {1, 4, 6}});
  EXPECT_EQ(set->channels().targets, std::vector<std::string>{names[1]});
  EXPECT_EQ(set->channels().persistent(), std::vector<int64_t>{-1});
  EXPECT_EQ(whole->channels().persistent(), (std::vector<int64_t>{0, 1, 2}));
  ASSERT_EQ(set->size(), whole->size());
  for (int64_t i = 0; i < set->size(); ++i) {
    std::fill(chosen.begin(), chosen.end(), NAN), std::fill(one.begin(), one.end(), NAN);
    whole->read(i, input.data(), target.data());
    set->read(i, chosen.data(), one.data());
    for (int64_t p = 0; p < 24; ++p) {
      ASSERT_EQ(chosen[p], input[48 + p]);
      ASSERT_EQ(chosen[24 + p], input[p]);
      ASSERT_EQ(one[p], target[24 + p]);
    }
  }
  const auto open = [&](const data::SampleShape& want) {
    data::open_dataset(d, d.train, data::Split::train, want);
  };
  expect_config_error([&] { open({{3, 4, 6}, {1, 4, 6}}); }, {"'net.in_channels'", "data.inputs"});
  d.inputs = {names[2], "snow"};
  expect_config_error(
      [&] {
        open({{2, 4, 6}, {1, 4, 6}});
      },
      {"2015.h5", "'data.inputs'", "'snow'", names[1]});
}

TEST(Nersc, EveryFaultIsOneErrorNamingFileKeyAndMend) {
  TempDir dir;
  DataSpec d = spec_for(dir);
  const auto open = [&](data::FieldShape want = kNerscShape, data::Split split = data::Split::train) {
    return data::open_dataset(d, d.train, split, want);
  };
  d.train = dir / "nowhere";
  expect_config_error([&] { open(); }, {dir / "nowhere", "'data.train'", "no such file"});
  expect_config_error([&] { open(kNerscShape, data::Split::valid); }, {"'data.valid'"});
  fs::create_directories(dir / "set");
  d.train = dir / "set";
  expect_config_error([&] { open(); }, {"holds no .h5, .nc or .grib file"});

  const std::string file = dir / "set/2015.h5";
  write_hdf5(file, {5, 3, 4, 6}, random_floats(360), {.dataset = "other"});
  expect_config_error([&] { open(); }, {file, "'data.train'", "no dataset 'fields'"});
  write_hdf5(file, {5, 3, 24}, random_floats(360));
  expect_config_error([&] { open(); }, {file, "[5, 3, 24]"});
  write_hdf5(file, {5, 3, 4, 6}, random_floats(360));
  for (const char* name : {"scale_factor", "_FillValue"}) {
    const double x = 0.5;
    const hid_t h = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
                set = H5Dopen2(h, "fields", H5P_DEFAULT), one = H5Screate(H5S_SCALAR),
                a = H5Acreate2(set, name, H5T_IEEE_F64LE, one, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, H5T_NATIVE_DOUBLE, &x);
    H5Aclose(a), H5Sclose(one), H5Dclose(set), H5Fclose(h);
    expect_config_error([&] { open(); }, {file, "'data.train'", name});
    write_hdf5(file, {5, 3, 4, 6}, random_floats(360));
  }
  expect_config_error([&] { open({4, 4, 6}); }, {file, "'net.in_channels'", "3 channels"});
  expect_config_error([&] { open({3, 5, 6}); }, {file, "'net.img_height'", "4 x 6"});
  expect_config_error([&] { open({3, 4, 7}); }, {file, "'net.img_width'"});
  d.dt = 5;
  expect_config_error([&] { open(); }, {"'data.dt'", "no pair"});
  d.dt = 0;
  expect_config_error([&] { open(); }, {"'data.dt'"});
  d.dt = 1;
  d.train_fraction = 1.5;
  expect_config_error([&] { open(); }, {"'data.train_fraction'"});
  d.train_fraction = 1;

  write_hdf5(dir / "set/2016.h5", {5, 3, 4, 7}, random_floats(420));
  expect_config_error([&] { open(); }, {dir / "set/2016.h5", "2015.h5", "4 x 7"});
  fs::remove(dir / "set/2016.h5");

  for (const auto& [value, name] : {std::pair{NAN, "NaN"}, std::pair{-INFINITY, "infinite"}}) {
    auto data = random_floats(360);
    data[((2 * 3 + 1) * 4 + 3) * 6 + 5] = value;
    write_hdf5(file, {5, 3, 4, 6}, data);
    const auto set = open();
    EXPECT_NO_THROW(read(*set, 3));
    expect_config_error([&] { read(*set, 1); },
                        {file, "'data.train'", "time step 2", "channel 'c1'", name, "row 3, column 5"});
    expect_config_error([&] { read(*set, 2); }, {"time step 2"});
  }

  for (const Hdf5Options& layout : {Hdf5Options{}, Hdf5Options{.chunk = {1, 1, 4, 6}, .deflate = 1}}) {
    write_hdf5(file, {5, 3, 4, 6}, random_floats(360), layout);
    fs::resize_file(file, fs::file_size(file) - 100);
    expect_config_error([&] { open(); }, {file, "'data.train'", "truncated"});
  }
  write_hdf5(file, {5, 3, 4, 6}, random_floats(360));
  auto set = open();
  fs::resize_file(file, fs::file_size(file) - 100);  // cut while in use
  expect_config_error(
      [&] {
        for (int64_t i = 0; i < set->size(); ++i) read(*set, i);
      },
      {file, "time step 4", "truncated"});
  fs::resize_file(file, 0);
  expect_config_error([&] { open(); }, {file, "is empty"});

  write_hdf5(file, {5, 3, 4, 6}, random_floats(360), {.chunk = {1, 1, 4, 6}, .steps_written = 3});
  set = open();
  expect_config_error([&] { read(*set, 2); }, {file, "time step 3", "never written"});
}

TEST(Nersc, BadStatisticsAreRefused) {
  TempDir dir;
  write_year(dir, "2015.h5", 5);
  DataSpec d = spec_for(dir);
  const auto open = [&] { return data::open_dataset(d, d.train, data::Split::train, kNerscShape); };
  EXPECT_NO_THROW(open());
  data::write_npy(d.stds, {1, 3, 1, 1}, {1, -1, 1});
  expect_config_error(open, {d.stds, "'data.stds'", "channel 1"});
  data::write_npy(d.stds, {1, 4, 1, 1}, {1, 1, 1, 1});
  expect_config_error(open, {d.stds, "'data.stds'", "4 numbers for 3 channels"});
  data::write_npy(d.stds, {1, 3, 1, 1}, {1, NAN, 1});
  expect_config_error(open, {d.stds, "'data.stds'", "not finite"});
  d.stds = dir / "none.npy";
  expect_config_error(open, {"none.npy", "'data.stds'", "no such file"});
  d.stds = "";
  expect_config_error(open, {"'data.stds'", "one without the other"});
  d.means = "";
  EXPECT_NO_THROW(open());
  write_hdf5(dir / "2015.h5", {5, 3, 4, 6}, std::vector<float>(360, 7));
  EXPECT_EQ(open()->flat_channels(), (std::vector<std::string>{"c0", "c1", "c2"}));
  std::vector<float> input(72), target(72);
  open()->read(1, input.data(), target.data());
  EXPECT_EQ(input, std::vector<float>(72, 0.0f));
}

}  // namespace
}  // namespace isobar::test
