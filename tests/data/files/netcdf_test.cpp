// CF NetCDF: fields do not depend on the file's axis order, format and packing.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "model/data/cf/cf_axes.h"
#include "model/data/cf/dates.h"
#include "model/data/dataset.h"
#include "model/data/fields/field_file.h"
#include "model/data/statistics/stats.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

float unpacked(const NetcdfOptions& o, int16_t p) {
  return static_cast<float>(p * o.scale + o.offset);
}

/// Every step of the file equals the packed values, whole and cropped.
void expect_fields(const std::string& path, const NetcdfOptions& o, const std::vector<Packed>& values) {
  const auto files = data::open_fields(path, "data.train", {});
  ASSERT_EQ(files.size(), 1u);
  const data::FieldFile& f = *files[0];
  ASSERT_EQ(f.info().steps, o.steps);
  const auto channels = static_cast<int64_t>(values.size()) * o.levels;
  ASSERT_EQ(f.info().shape.channels, channels);
  ASSERT_EQ(f.info().shape.height, o.rows);
  ASSERT_EQ(f.info().shape.width, o.columns);
  for (const data::FieldShape crop : {data::FieldShape{channels, o.rows, o.columns},
                                      data::FieldShape{channels, o.rows - 1, o.columns - 2}}) {
    for (int64_t t = 0; t < o.steps; ++t) {
      std::vector<float> got(crop.size(), NAN);
      f.read(t, crop, nullptr, got.data());
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t y = 0; y < crop.height; ++y)
          for (int64_t x = 0; x < crop.width; ++x) {
            const Packed& v = values[c / o.levels];
            const float want = unpacked(o, v[((t * o.levels + c % o.levels) * o.rows + y) * o.columns + x]);
            ASSERT_EQ(got[(c * crop.height + y) * crop.width + x], want)
                << t << " " << c << " " << y << " " << x;
          }
    }
  }
}

TEST(Netcdf, AnyAxisOrderFormatAndDirectionGivesTheSameFields) {
  TempDir dir;
  const int formats[] = {NC_NETCDF4, 0, NC_64BIT_OFFSET, NC_NETCDF4 | NC_CLASSIC_MODEL};
  for (std::string order : {"tzyx", "yxtz", "xyzt", "zntxy", "tyx", "xty", "yxt"}) {
    const bool has_levels = order.find('z') != std::string::npos;
    for (int format : formats)
      for (bool south_first : {false, true})
        for (bool two : {false, true}) {
          SCOPED_TRACE(order + " format " + std::to_string(format) + (south_first ? " south first" : ""));
          NetcdfOptions o{.order = order,
                          .levels = has_levels ? 3 : 1,
                          .format = format,
                          .south_first = south_first,
                          .two = two};
          std::vector<Packed> values = {random_packed(o)};
          if (two) values.push_back(random_packed(o));
          write_netcdf(dir / "a.nc", o, values);
          expect_fields(dir / "a.nc", o, values);
        }
  }
}

TEST(Netcdf, ClassicFilesWithRecordsReadInParallel) {
  TempDir dir;
  for (int format : {0, NC_64BIT_OFFSET, NC_CDF5})
    for (int variables : {0, 1, 2})  // 0: t alone, without even a time coordinate, is packed without padding
      for (int64_t columns : {6, 7}) {  // 3 x 7 shorts are padded to four bytes, 3 x 6 need no padding
        NetcdfOptions o{.rows = 3,
                        .columns = columns,
                        .format = format,
                        .two = variables == 2,
                        .unlimited = true,
                        .coordinates = variables > 0};
        std::vector<Packed> values = {random_packed(o)};
        if (o.two) values.push_back(random_packed(o));
        write_netcdf(dir / "a.nc", o, values);
        expect_fields(dir / "a.nc", o, values);
        EXPECT_EQ(data::open_fields(dir / "a.nc", "", {})[0]->info().layout.parallel(), true);
        fs::resize_file(dir / "a.nc", fs::file_size(dir / "a.nc") - 4);
        expect_config_error([&] { data::open_fields(dir / "a.nc", "data.train", {}); },
                            {"a.nc", "'data.train'", "truncated"});
      }
}

// Floats in output order are read in place by stretches, in either byte order; the fields span several
// stretches.
TEST(Netcdf, PlainFloatsAreExactAndTheirFillValueIsFoundByItsPlace) {
  constexpr int64_t T = 2, H = 301, W = 401;
  TempDir dir;
  for (const int format : {int{NC_NETCDF4}, int{NC_CDF5}}) {
    const std::vector<float> values = random_floats(T * H * W, 280, 10);
    const int64_t row = random_int(0, H - 1), column = random_int(0, W - 1);
    const size_t at = static_cast<size_t>((H + row) * W + column);  // of the second step
    for (const bool missing : {false, true}) {
      std::vector<float> written = values;
      if (missing) written[at] = NC_FILL_FLOAT;
      int nc = 0, dims[3], axes[3], v = 0;
      const char* const names[] = {"time", "latitude", "longitude"};
      const char* const units[] = {"hours since 2019-01-01", "degrees_north", "degrees_east"};
      const size_t sizes[] = {T, H, W};
      NC(nc_create((dir / "a.nc").c_str(), NC_CLOBBER | format, &nc));
      for (int k = 0; k < 3; ++k) {
        NC(nc_def_dim(nc, names[k], sizes[k], &dims[k]));
        NC(nc_def_var(nc, names[k], NC_DOUBLE, 1, &dims[k], &axes[k]));
        NC(nc_put_att_text(nc, axes[k], "units", std::strlen(units[k]), units[k]));
      }
      NC(nc_def_var(nc, "t", NC_FLOAT, 3, dims, &v));
      NC(nc_enddef(nc));
      for (int k = 0; k < 3; ++k) {
        std::vector<double> axis(sizes[k]);
        for (size_t i = 0; i < axis.size(); ++i)
          axis[i] = k == 1 ? 90 - static_cast<double>(i) / 4 : static_cast<double>(i) / 4;
        NC(nc_put_var_double(nc, axes[k], axis.data()));
      }
      NC(nc_put_var_float(nc, v, written.data()));
      NC(nc_close(nc));
      const data::FieldFiles files = data::open_fields(dir / "a.nc", "", {});
      const data::FieldShape shape{1, H, W};
      const data::Statistics norm{{281.5f}, {9.5f}};
      for (int64_t t = 0; t < T; ++t)
        for (const data::Statistics* n : {static_cast<const data::Statistics*>(nullptr), &norm}) {
          std::vector<float> got(H * W);
          if (missing && t == 1) {
            expect_config_error([&] { files[0]->read(t, shape, n, got.data()); },
                                {"time step 1", "'t'", "missing value",
                                 "row " + std::to_string(row) + ", column " + std::to_string(column)});
            continue;
          }
          files[0]->read(t, shape, n, got.data());
          for (int64_t i = 0; i < H * W; ++i) {
            const float x = values[static_cast<size_t>(t * H * W + i)];
            ASSERT_EQ(got[static_cast<size_t>(i)], n ? (x - 281.5f) / 9.5f : x);
          }
        }
      std::vector<float> gaps(H * W);
      files[0]->read_with_gaps(1, shape, gaps.data());
      for (size_t i = 0; i < gaps.size(); ++i) {
        const size_t of = static_cast<size_t>(H * W) + i;
        if (missing && of == at)
          ASSERT_TRUE(std::isnan(gaps[i]));
        else
          ASSERT_EQ(gaps[i], values[of]);
      }
    }
  }
}

TEST(Netcdf, ChunkedAndCompressedFilesReadInParallel) {
  TempDir dir;
  for (const std::vector<size_t>& chunk : {std::vector<size_t>{1, 4, 6}, {3, 2, 5}, {5, 4, 6}})
    for (bool unlimited : {false, true}) {
      NetcdfOptions o{.unlimited = unlimited, .deflate = 3, .chunk = chunk};
      const std::vector<Packed> values = {random_packed(o)};
      write_netcdf(dir / "a.nc", o, values);
      expect_fields(dir / "a.nc", o, values);
      EXPECT_EQ(data::open_fields(dir / "a.nc", "", {})[0]->info().layout.parallel(), true);
    }
}

TEST(Netcdf, NewStoreNamesAndFilesWithoutAttributesAreUnderstood) {
  TempDir dir;
  NetcdfOptions o{.time_name = "valid_time", .time_units = "seconds since 1970-01-01"};
  o.times = {0, 3600, 7200, 10800, 14400};
  const std::vector<Packed> values = {random_packed(o)};
  write_netcdf(dir / "new.nc", o, values);
  expect_fields(dir / "new.nc", o, values);
  NetcdfOptions bare{.order = "xyt", .row_name = "lat", .column_name = "lon", .attributes = false};
  const std::vector<Packed> more = {random_packed(bare)};
  write_netcdf(dir / "bare.nc", bare, more);
  expect_fields(dir / "bare.nc", bare, more);
}

TEST(Netcdf, LevelsBecomeChannelsAndVariablesChooseAmongThem) {
  TempDir dir;
  NetcdfOptions o{.order = "tzyx", .levels = 4, .two = true};
  const std::vector<Packed> values = {random_packed(o), random_packed(o)};
  write_netcdf(dir / "a.nc", o, values);
  const auto names = [&](const std::vector<std::string>& wanted) {
    return data::open_fields(dir / "a.nc", "", wanted)[0]->info().channels;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({}), (Names{"t1000", "t850", "t500", "t250", "q1000", "q850", "q500", "q250"}));
  EXPECT_EQ(names({"q"}), (Names{"q1000", "q850", "q500", "q250"}));
  const Names some = {"q500", "t1000", "t850", "t250", "q250"};
  EXPECT_EQ(names(some), some);
  const auto files = data::open_fields(dir / "a.nc", "", some);
  std::vector<float> got(5 * 24, NAN);
  files[0]->read(3, {5, 4, 6}, nullptr, got.data());
  const std::pair<int, int64_t> where[] = {{1, 2}, {0, 0}, {0, 1}, {0, 3}, {1, 3}};
  for (int64_t c = 0; c < 5; ++c)
    for (int64_t i = 0; i < 24; ++i)
      ASSERT_EQ(got[c * 24 + i], unpacked(o, values[where[c].first][(3 * 4 + where[c].second) * 24 + i]))
          << c;
  expect_config_error([&] { names({"t2m"}); }, {"'data.variables'", "'t2m'", "t, q"});
  expect_config_error([&] { names({"t", "t500"}); }, {"'data.variables'", "twice"});
}

DataSpec spec_for(const std::string& path, double fraction = 1) {
  DataSpec d;
  d.train = path;
  d.train_fraction = fraction;
  return d;
}

/// (time of input, time of target) of every pair, from the first value, which holds the step number.
std::vector<std::pair<int, int>> pairs_of(DataSpec d, data::Split split, const TempDir& dir) {
  // Statistics with mean 0 and std 1 keep the step number.
  d.means = dir / "m.npy", d.stds = dir / "s.npy";
  data::write_statistics(dir.path(), {{0}, {1}});
  fs::rename(dir / "global_means.npy", d.means);
  fs::rename(dir / "global_stds.npy", d.stds);
  const auto set = data::open_dataset(d, split == data::Split::train ? d.train : d.valid, split,
                                      data::FieldShape{1, 4, 6});
  std::vector<std::pair<int, int>> out;
  for (int64_t i = 0; i < set->size(); ++i) {
    std::vector<float> a(24, NAN), b(24, NAN);
    set->read(i, a.data(), b.data());
    out.emplace_back(std::lround(a[0]), std::lround(b[0]));
  }
  return out;
}

Packed numbered(const NetcdfOptions& o) {
  Packed p(o.steps * o.rows * o.columns);
  for (size_t i = 0; i < p.size(); ++i) p[i] = static_cast<int16_t>(i / (o.rows * o.columns));
  return p;
}

TEST(Netcdf, SplitInTimeNeverStraddlesAndCoversEveryPairOnce) {
  TempDir dir;
  NetcdfOptions o{.steps = 20, .scale = 1, .offset = 0};
  write_netcdf(dir / "a.nc", o, {numbered(o)});
  using Pairs = std::vector<std::pair<int, int>>;
  const auto range = [](int low, int high, int dt) {
    Pairs p;
    for (int t = low; t + dt < high; ++t) p.emplace_back(t, t + dt);
    return p;
  };
  for (int dt : {1, 3}) {
    DataSpec d = spec_for(dir / "a.nc", 0.7);
    d.dt = dt;
    EXPECT_EQ(pairs_of(d, data::Split::train, dir), range(0, 14, dt));
    EXPECT_EQ(pairs_of(d, data::Split::valid, dir), range(14, 20, dt));
    d.train_fraction = 1;
    EXPECT_EQ(pairs_of(d, data::Split::train, dir), range(0, 20, dt));
    expect_config_error([&] { pairs_of(d, data::Split::valid, dir); },
                        {"'data.valid'", "no validation data"});
  }
  DataSpec d = spec_for(dir / "a.nc", 0.97);
  expect_config_error([&] { pairs_of(d, data::Split::valid, dir); },
                      {"validation part", "data.train_fraction"});
}

TEST(Netcdf, PairsDoNotCrossGapsInTime) {
  TempDir dir;
  NetcdfOptions o{.steps = 8, .scale = 1, .offset = 0};
  o.times = {0, 1, 2, 3, 10, 11, 12, 13};
  write_netcdf(dir / "a.nc", o, {numbered(o)});
  DataSpec d = spec_for(dir / "a.nc");
  d.dt = 2;
  EXPECT_EQ(pairs_of(d, data::Split::train, dir),
            (std::vector<std::pair<int, int>>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  o.times = {0, 31, 59, 90, 120, 151, 181, 212};  // months in days: uneven, yet no gap
  write_netcdf(dir / "a.nc", o, {numbered(o)});
  EXPECT_EQ(pairs_of(d, data::Split::train, dir).size(), 6u);
  d.dt = 1;
  o.times = {0, 6, 12, 18, 19, 20, 26, 32};  // two steps of an hour among those of six
  write_netcdf(dir / "a.nc", o, {numbered(o)});
  EXPECT_EQ(pairs_of(d, data::Split::train, dir),
            (std::vector<std::pair<int, int>>{{0, 1}, {1, 2}, {2, 3}, {5, 6}, {6, 7}}));
}

TEST(Netcdf, StatisticsComeFromTheTrainingPartAlone) {
  TempDir dir;
  NetcdfOptions o{.steps = 10};
  Packed p = random_packed(o);
  for (size_t i = 0; i < p.size(); ++i)
    if (i >= 6 * 24) p[i] = static_cast<int16_t>(p[i] + 20000);  // the held-out part is far away
  write_netcdf(dir / "a.nc", o, {p});
  long double sum = 0, square = 0;
  for (int i = 0; i < 144; ++i) sum += unpacked(o, p[i]);
  const long double mean = sum / 144;
  for (int i = 0; i < 144; ++i) square += (unpacked(o, p[i]) - mean) * (unpacked(o, p[i]) - mean);
  const long double std = std::sqrt(square / 144);
  const DataSpec d = spec_for(dir / "a.nc", 0.6);
  for (data::Split split : {data::Split::train, data::Split::valid}) {
    const auto set =
        data::open_dataset(d, split == data::Split::train ? d.train : "", split, data::FieldShape{1, 4, 6});
    std::vector<float> a(24, NAN), b(24, NAN);
    set->read(0, a.data(), b.data());
    const int first = split == data::Split::train ? 0 : 6;
    for (int i = 0; i < 24; ++i) {
      EXPECT_NEAR(a[i], static_cast<double>((unpacked(o, p[first * 24 + i]) - mean) / std), 2e-5);
      EXPECT_NEAR(b[i], static_cast<double>((unpacked(o, p[(first + 1) * 24 + i]) - mean) / std), 2e-5);
    }
  }
}

TEST(Netcdf, FaultsAreOneErrorNamingFileKeyAndMend) {
  TempDir dir;
  const std::string file = dir / "a.nc";
  const auto read = [&](int64_t t) {
    std::vector<float> out(48);
    const auto files = data::open_fields(file, "data.train", {});
    files[0]->read(t, files[0]->info().shape, nullptr, out.data());
  };
  for (std::string order : {"tyx", "xyt"})
    for (int format : {NC_NETCDF4, 0})
      for (int16_t hole : {-32767, -32766}) {
        NetcdfOptions o{.order = order, .format = format, .south_first = order == "xyt", .two = true};
        std::vector<Packed> values = {random_packed(o), random_packed(o)};
        values[1][(3 * 4 + 2) * 6 + 5] = hole;
        write_netcdf(file, o, values);
        EXPECT_NO_THROW(read(2));
        expect_config_error([&] { read(3); }, {file, "'data.train'", "time step 3", "channel 'q'", "missing",
                                               "row 2, column 5"});
      }
  NetcdfOptions o{.order = "tnyx", .extra = 2};
  write_netcdf(file, o, {Packed(240)});
  o = {.extra = 2};
  expect_config_error([&] { read(0); }, {file, "'number'", "ncks"});
  o = {.steps = 3};
  o.times = {0, 2, 1};
  write_netcdf(file, o, {random_packed(o)});
  expect_config_error([&] { read(0); }, {file, "'time'", "does not increase at step 2"});
  o = {.time_name = "a", .row_name = "b", .column_name = "c", .time_units = "K", .attributes = false};
  write_netcdf(file, o, {random_packed(o)});
  expect_config_error([&] { read(0); },
                      {file, "'t' lies along a (", "these are no time, latitude and longitude"});
  o = {.scale = 0};
  write_netcdf(file, o, {random_packed(o)});
  expect_config_error([&] { read(0); }, {file, "scale_factor"});
  for (int format : {NC_NETCDF4, 0}) {
    o = {.steps = 50, .format = format};
    write_netcdf(file, o, {random_packed(o)});
    fs::resize_file(file, fs::file_size(file) / 3);
    expect_config_error(
        [&] {
          for (int t = 0; t < 50; ++t) read(t);
        },
        {file, "'data.train'"});
  }
  std::ofstream(file) << "GRIB....";
  expect_config_error([&] { read(0); }, {file, "GRIB"});
  std::ofstream(file) << "PK....";
  expect_config_error([&] { read(0); }, {file, "ZIP"});
  std::ofstream(file) << "time,lat,lon\n1,2,3\n";
  expect_config_error([&] { read(0); }, {file, "neither HDF5 nor NetCDF"});
}

TEST(Netcdf, AFileCanBeOpenTwiceAtOnce) {
  TempDir dir;
  NetcdfOptions o{.steps = 20};
  const std::vector<Packed> values = {random_packed(o)};
  write_netcdf(dir / "a.nc", o, values);
  const DataSpec d = spec_for(dir / "a.nc", 0.5);
  const auto train = data::open_dataset(d, d.train, data::Split::train, data::FieldShape{1, 4, 6});
  const auto valid = data::open_dataset(d, "", data::Split::valid, data::FieldShape{1, 4, 6});
  std::vector<float> a(24), b(24);
  EXPECT_NO_THROW(train->read(3, a.data(), b.data()));
  EXPECT_NO_THROW(valid->read(3, a.data(), b.data()));
}

TEST(CfAxes, AreToldByAttributesBeforeNames) {
  EXPECT_EQ(data::classify({.name = "x", .standard_name = "latitude"}), data::CfAxis::latitude);
  EXPECT_EQ(data::classify({.name = "a", .units = "degrees_north"}), data::CfAxis::latitude);
  EXPECT_EQ(data::classify({.name = "a", .units = "degreesE"}), data::CfAxis::longitude);
  EXPECT_EQ(data::classify({.name = "a", .units = "days since 1900-1-1"}), data::CfAxis::time);
  EXPECT_EQ(data::classify({.name = "a", .axis = "T"}), data::CfAxis::time);
  EXPECT_EQ(
      data::classify(
          {.name = "time", .standard_name = "forecast_reference_time", .units = "hours since 2000-1-1"}),
      data::CfAxis::other);
  EXPECT_EQ(data::classify({.name = "a", .units = "hPa"}), data::CfAxis::level);
  EXPECT_EQ(data::classify({.name = "a", .positive = "Down"}), data::CfAxis::level);
  EXPECT_EQ(data::classify({.name = "a", .axis = "Z"}), data::CfAxis::level);
  EXPECT_EQ(data::classify({.name = "valid_time"}), data::CfAxis::time);
  EXPECT_EQ(data::classify({.name = "number", .standard_name = "realization"}), data::CfAxis::other);
  EXPECT_EQ(data::classify({.name = "expver"}), data::CfAxis::other);
  EXPECT_EQ(data::level_name(50000, "Pa"), "500");
  EXPECT_EQ(data::level_name(0.5, "hPa"), "0.5");
  EXPECT_EQ(data::iso_time(0, "hours since 1900-01-01 00:00:00.0", "gregorian"), "1900-01-01T00:00Z");
  EXPECT_EQ(data::iso_time(1051896, "hours since 1900-01-01 00:00:00.0", ""), "2020-01-01T00:00Z");
  EXPECT_EQ(data::iso_time(1551400200, "seconds since 1970-01-01", "proleptic_gregorian"),
            "2019-03-01T00:30Z");
  EXPECT_EQ(data::iso_time(59, "days since 2000-1-1", "360_day"), "2000-02-30T00:00Z");
  EXPECT_EQ(data::iso_time(1, "fortnights since 2000-1-1", ""), "");
}

TEST(Netcdf, RealEra5Sample) {
  const char* path = std::getenv("ISOBAR_ERA5_SAMPLE");
  if (!path) GTEST_SKIP() << "set ISOBAR_ERA5_SAMPLE to era5-uk-t2m-2019-03.nc to run on real data";
  DataSpec d = spec_for(path, 0.8);
  d.dt = 6;
  const data::FieldShape shape{1, 32, 48};
  const auto train = data::open_dataset(d, path, data::Split::train, shape),
             valid = data::open_dataset(d, "", data::Split::valid, shape);
  EXPECT_EQ(train->channels().inputs, std::vector<std::string>{"t2m"});
  EXPECT_EQ(train->size(), 595 - 6);
  EXPECT_EQ(valid->size(), 149 - 6);
  double sum = 0, square = 0, change = 0;
  std::vector<float> a(shape.size(), NAN), b(shape.size(), NAN);
  for (int64_t i = 0; i < train->size(); ++i) {
    train->read(i, a.data(), b.data());
    for (int64_t k = 0; k < shape.size(); ++k)
      sum += a[k], square += a[k] * a[k], change += (a[k] - b[k]) * (a[k] - b[k]);
  }
  const double n = static_cast<double>(train->size() * shape.size());
  EXPECT_NEAR(sum / n, 0, 0.05);  // normalised with its own statistics, bar the last six hours
  EXPECT_NEAR(square / n, 1, 0.05);
  EXPECT_GT(std::sqrt(change / n),
            0.2);  // temperature changes in six hours, but within the weather's range
  EXPECT_LT(std::sqrt(change / n), 1.4);
}

// Forecasts get the times of targets, in hours since 1970: files of a directory are one series.
TEST(Netcdf, TargetsHaveTimesWhateverDayFilesCountFrom) {
  TempDir dir;
  for (const bool same : {true, false}) {
    const std::string set = dir / (same ? "same" : "other");
    fs::create_directories(set);
    NetcdfOptions o;
    write_netcdf(set + "/a.nc", o, {random_packed(o)});
    o.times = {100, 101, 102, 103, 104};
    if (!same) o.time_units = "hours since 2019-03-05 00:00:00";
    write_netcdf(set + "/b.nc", o, {random_packed(o)});
    DataSpec d;
    d.train = set;
    const auto data = data::open_dataset(d, set, data::Split::train, data::FieldShape{1, 4, 6});
    EXPECT_EQ(data->coordinates().time_units, "hours since 1970-01-01 00:00:00");
    EXPECT_EQ(data->coordinates().latitude.size(), 4u);
    constexpr double kMarch = 17956 * 24;  // 2019-03-01
    EXPECT_EQ(data->target_time(0), kMarch + 1);
    EXPECT_EQ(data->target_time(data->size() - 1), kMarch + 104 + (same ? 0 : 96));
  }
}

}  // namespace
}  // namespace isobar::test
