// Selections by data.*: levels, files joined on their times, regions, dates, static fields, forcings, masks.
// Values follow a formula, from which the expected ones are computed.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "model/data/cf/dates.h"
#include "model/data/dataset.h"
#include "model/data/fields/field_file.h"
#include "model/data/fields/forcings.h"
#include "model/data/statistics/stats.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

constexpr int64_t kGridRows = 6, kGridColumns = 12;  // latitudes 60 to 10, longitudes 0 to 330

struct Made {
  std::string path;
  std::vector<double> hours;        // since 2019-03-01
  std::vector<std::string> single;  // variables of one level
  bool levels = false;              // z at 500 and 850
  bool still = false;               // orography, lsm: no time axis
  float gap = NAN;                  // this value is written as missing
  int64_t columns = kGridColumns;
};

/// Distinct for each variable, level, hour and point; exact in f32
float value(size_t variable, int64_t level, double hour, int64_t y, int64_t x) {
  return static_cast<float>(variable * 100000 + level * 50000 + hour * 100 +
                            static_cast<double>(y * kGridColumns + x));
}

void make(const Made& m) {
  int nc = -1, t = 0, z = 0, y = 0, x = 0, v = 0;
  NC(nc_create(m.path.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc));
  nc_def_dim(nc, "time", m.hours.size(), &t), nc_def_dim(nc, "level", 2, &z);
  nc_def_dim(nc, "latitude", kGridRows, &y), nc_def_dim(nc, "longitude", static_cast<size_t>(m.columns), &x);
  const auto axis = [&](const char* name, int dim, const std::string& units,
                        const std::vector<double>& values) {
    nc_def_var(nc, name, NC_DOUBLE, 1, &dim, &v);
    nc_put_att_text(nc, v, "units", units.size(), units.c_str());
    nc_put_var_double(nc, v, values.data());
  };
  std::vector<double> lat, lon;
  for (int64_t i = 0; i < kGridRows; ++i) lat.push_back(60.0 - 10.0 * static_cast<double>(i));
  for (int64_t i = 0; i < m.columns; ++i) lon.push_back(30.0 * static_cast<double>(i));
  axis("time", t, "hours since 2019-03-01 00:00:00", m.hours);
  axis("level", z, "hPa", {500, 850});
  axis("latitude", y, "degrees_north", lat), axis("longitude", x, "degrees_east", lon);
  const float fill = -9e9f;
  const auto put = [&](const std::string& name, const std::vector<int>& dims,
                       const std::vector<float>& values) {
    NC(nc_def_var(nc, name.c_str(), NC_FLOAT, static_cast<int>(dims.size()), dims.data(), &v));
    nc_put_att_float(nc, v, "_FillValue", NC_FLOAT, 1, &fill);
    NC(nc_put_var_float(nc, v, values.data()));
  };
  const auto filled = [&](size_t variable, int64_t levels) {
    std::vector<float> out;
    for (const double h : m.hours)
      for (int64_t l = 0; l < levels; ++l)
        for (int64_t i = 0; i < kGridRows * m.columns; ++i) {
          const float a = value(variable, l, h, i / m.columns, i % m.columns);
          out.push_back(a == m.gap ? fill : a);
        }
    return out;
  };
  for (size_t i = 0; i < m.single.size(); ++i) put(m.single[i], {t, y, x}, filled(i, 1));
  if (m.levels) put("z", {t, z, y, x}, filled(7, 2));
  std::vector<float> orography, land;
  for (int64_t i = 0; i < kGridRows * m.columns; ++i)
    orography.push_back(static_cast<float>(i)), land.push_back(i % 3 == 0 ? 1.0f : 0.25f);
  if (m.still) put("orography", {y, x}, orography), put("lsm", {y, x}, land);
  NC(nc_close(nc));
}

std::vector<double> hours(int64_t n, double step, double first = 0) {
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(first + step * static_cast<double>(i));
  return out;
}

std::vector<float> read(const data::FieldFile& file, int64_t t) {
  std::vector<float> out(static_cast<size_t>(file.info().shape.size()));
  file.read(t, file.info().shape, nullptr, out.data());
  return out;
}

using Words = std::vector<std::string>;

TEST(Selection, JoinsFilesOnTheirTimesWithLevelsInTheOrderAsked) {
  const TempDir dir;
  make({.path = dir / "single.nc", .hours = hours(24, 1), .single = {"t2m", "msl"}});
  fs::create_directories(dir / "pressure");  // monthly files, like the Climate Data Store's
  make({.path = dir / "pressure/a.nc", .hours = hours(2, 6), .levels = true});
  make({.path = dir / "pressure/b.nc", .hours = hours(2, 6, 12), .levels = true});
  data::FieldChoice choice({"z@850,500", "msl"});
  const std::string both = dir / "single.nc" + "," + dir / "pressure";
  expect_config_error(
      [&] { data::open_fields(both, "data.train", choice); },
      {"pressure", "'data.train'", "has no 2019-03-01T01:00Z", "single.nc", "data.time_step"});
  choice.time_step = 6;
  const data::FieldFiles files = data::open_fields(both, "data.train", choice);
  ASSERT_EQ(files.size(), 1u);
  const data::FieldInfo& info = files[0]->info();
  EXPECT_EQ(info.channels, (Words{"z850", "z500", "msl"}));
  EXPECT_EQ(info.steps, 4);
  EXPECT_EQ(data::segments_of(files).size(), 1u);  // pairs cross the border of files
  for (int64_t t = 0; t < 4; ++t) {
    const std::vector<float> got = read(*files[0], t);
    const double h = 6.0 * static_cast<double>(t);
    for (int64_t i = 0; i < kGridRows * kGridColumns; ++i) {
      ASSERT_EQ(got[i], value(7, 1, h, 0, i));
      ASSERT_EQ(got[kGridRows * kGridColumns + i], value(7, 0, h, 0, i));
      ASSERT_EQ(got[2 * kGridRows * kGridColumns + i], value(1, 0, h, 0, i));
    }
  }
}

TEST(Selection, FilesOfADirectoryAreOneSeriesInTime) {
  const TempDir dir;
  fs::create_directories(dir / "days");
  for (int64_t i = 0; i < 5; ++i)  // a time each
    make({.path = dir / "days/" + std::to_string(i) + ".nc",
          .hours = hours(1, 6, static_cast<double>(6 * i)),
          .single = {"t2m"}});
  const data::FieldFiles files = data::open_fields(dir / "days", "data.train", {});
  const std::vector<data::TimeSegment> all = data::segments_of(files);
  ASSERT_EQ(all.size(), 1u);
  const nlohmann::json shown = data::inspect(dir / "days");
  EXPECT_EQ(shown["files"], 5);
  EXPECT_EQ(shown["format"], "netCDF-4");
  EXPECT_EQ(all[0].steps, 5);
  for (int64_t t = 0; t < 5; ++t)
    EXPECT_EQ(read(*all[0].file, t)[7], value(0, 0, static_cast<double>(6 * t), 0, 7)) << t;
  make({.path = dir / "days/0-last.nc", .hours = hours(2, 6, 30), .single = {"t2m"}});  // the second by name
  const data::FieldFiles more = data::open_fields(dir / "days", "data.train", {});
  ASSERT_EQ(more.at(0)->info().steps, 7);
  for (int64_t t = 0; t < 7; ++t)
    EXPECT_EQ(read(*more[0], t)[7], value(0, 0, static_cast<double>(6 * t), 0, 7)) << t;
  make({.path = dir / "days/5.nc", .hours = hours(1, 6, 18), .single = {"t2m"}});
  expect_config_error([&] { data::open_fields(dir / "days", "data.train", {}); },
                      {"days/5.nc", "begins at 2019-03-01T18:00Z", "drop the steps"});
}

TEST(Selection, RegionsMayLieOverTheLineWhereLongitudesBegin) {
  const TempDir dir;
  make({.path = dir / "a.nc", .hours = hours(3, 6), .single = {"t2m"}});
  struct Case {
    std::vector<double> region;
    int64_t stride, first_row, rows;
    std::vector<int64_t> columns;
  };
  for (const Case& c :
       {Case{{50, 60, 20, 150}, 1, 1, 4, {2, 3, 4, 5}}, Case{{60, -60, 10, 60}, 1, 0, 6, {10, 11, 0, 1, 2}},
        Case{{60, 300, 10, 60}, 2, 0, 3, {10, 0, 2}},
        Case{{45, -180, 25, 180}, 1, 2, 2, {6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}},
        Case{{60, -90, 10, 30}, 3, 0, 2, {9, 0}}}) {
    data::FieldChoice choice;
    choice.region = c.region, choice.stride = c.stride;
    const data::FieldFiles files = data::open_fields(dir / "a.nc", "data.train", choice);
    const data::FieldInfo& info = files[0]->info();
    ASSERT_EQ(info.shape.height, c.rows);
    ASSERT_EQ(info.shape.width, static_cast<int64_t>(c.columns.size()));
    const std::vector<float> got = read(*files[0], 1);
    for (int64_t i = 0; i < c.rows; ++i)
      for (size_t j = 0; j < c.columns.size(); ++j)
        ASSERT_EQ(got[i * info.shape.width + static_cast<int64_t>(j)],
                  value(0, 0, 6, c.first_row + i * c.stride, c.columns[j]));
    EXPECT_TRUE(std::is_sorted(info.longitude.begin(), info.longitude.end()));
    std::vector<float> corner(2 * 2);  // a net may be smaller
    files[0]->read(1, {1, 2, 2}, nullptr, corner.data());
    EXPECT_EQ(corner[3], got[info.shape.width + 1]);
  }
  data::FieldChoice nowhere;
  nowhere.region = {9, 0, 5, 10};
  expect_config_error([&] { data::open_fields(dir / "a.nc", "data.train", nowhere); },
                      {"a.nc", "'data.region'", "no row", "60 to 10"});
}

TEST(Selection, DatesAreYearsMonthsDaysOrHoursAndBothInside) {
  const auto hour = [](const char* date) {
    return data::seconds_of(0, std::string("hours since ") + date, "");
  };
  EXPECT_EQ(data::date_period("2020")->first, hour("2020-01-01"));
  EXPECT_EQ(data::date_period("2020")->last, *hour("2021-01-01") - 1);
  EXPECT_EQ(data::date_period("2020-02")->last, *hour("2020-03-01") - 1);
  EXPECT_EQ(data::date_period("2019-03-01")->last, *hour("2019-03-02") - 1);
  EXPECT_EQ(data::date_period("2019-03-01T06:00Z")->first, hour("2019-03-01 06:00"));
  for (const char* no : {"", "20", "2019-13", "2019-02-30", "2019-03-01T24", "march", "2019-03-01 x"})
    EXPECT_FALSE(data::date_period(no)) << no;

  const TempDir dir;
  make({.path = dir / "a.nc", .hours = hours(96, 1), .single = {"t2m"}});
  data::FieldChoice choice;
  choice.dates = {"2019-03-02", "2019-03-03T05"};
  const data::FieldFiles files = data::open_fields(dir / "a.nc", "data.train", choice);
  EXPECT_EQ(files[0]->info().steps, 30);
  EXPECT_EQ(read(*files[0], 0)[0], value(0, 0, 24, 0, 0));
  choice.dates = {"2020", "2021"};
  expect_config_error([&] { data::open_fields(dir / "a.nc", "data.train", choice); },
                      {"a.nc", "'data.dates'", "2019-03-01T00:00Z to 2019-03-04T23:00Z"});
  choice.dates = {"2019-03-04", "2019-03-02"};
  expect_config_error([&] { data::open_fields(dir / "a.nc", "data.train", choice); },
                      {"'data.dates'", "comes after"});
  test::write_hdf5(dir / "2015.h5", {3, 1, 4, 4}, random_floats(48));
  expect_config_error(
      [&] {
        data::open_fields(
            dir / "2015.h5", "data.train", choice = [] {
              data::FieldChoice c;
              c.dates = {"2015", "2016"};
              return c;
            }());
      },
      {"2015.h5", "'data.dates'", "does not say when"});
}

TEST(Selection, ADatasetIsSplitByDatesAndHasInputsBesideItsFields) {
  const TempDir dir;
  make({.path = dir / "a.nc", .hours = hours(96, 1), .single = {"t2m"}, .still = true});
  DataSpec d;
  d.train = dir / "a.nc";
  d.dt = 6;
  d.dates = {"2019-03-01", "2019-03-02"}, d.valid_dates = {"2019-03-04", "2019-03-04"};
  d.static_fields = {"orography"}, d.forcings = {"time_of_day", "solar_zenith"};
  const data::SampleShape shape({5, kGridRows, kGridColumns}, {1, kGridRows, kGridColumns});
  const auto train = data::open_dataset(d, d.train, data::Split::train, shape),
             valid = data::open_dataset(d, "", data::Split::valid, shape);
  EXPECT_EQ(train->size(), 48 - 6);
  EXPECT_EQ(valid->size(), 24 - 6);
  EXPECT_EQ(train->channels().inputs,
            (Words{"t2m", "orography", "time_of_day_sin", "time_of_day_cos", "cos_solar_zenith"}));
  EXPECT_EQ(train->channels().targets, Words{"t2m"});
  EXPECT_EQ(train->coordinates().latitude.front(), 60);
  const data::Statistics s = train->input_statistics(), of_valid = valid->input_statistics();
  EXPECT_EQ(s.mean, of_valid.mean);  // only of the training dates
  constexpr int64_t plane = kGridRows * kGridColumns;
  std::vector<float> in(5 * plane), out(plane);
  valid->read(3, in.data(), out.data());
  for (int64_t i = 0; i < plane; ++i) {
    EXPECT_EQ(in[i], (value(0, 0, 75, 0, i) - s.mean[0]) / s.std[0]);
    EXPECT_EQ(out[i], (value(0, 0, 81, 0, i) - s.mean[0]) / s.std[0]);
    EXPECT_EQ(in[plane + i], (static_cast<float>(i) - s.mean[1]) / s.std[1]);
    const double angle = 2 * std::numbers::pi * (3.0 / 24 + static_cast<double>(i % kGridColumns) * 30 / 360);
    EXPECT_NEAR(in[2 * plane + i] * s.std[2] + s.mean[2], std::sin(angle), 1e-6);
  }
}

TEST(Selection, ForcingsStandWhereTheSunDoes) {
  const auto zenith = [](const char* when, double lat, double lon) {
    float cosine = 0;
    data::compute_forcings({"solar_zenith"}, *data::seconds_of(0, std::string("hours since ") + when, ""),
                           {lat}, {lon}, 1, 1, &cosine);
    return std::acos(static_cast<double>(cosine)) * 180 / std::numbers::pi;
  };
  // Equinox and solstices of 2019 from almanacs (20 March 21:58, 21 June 15:54, 22 December 04:19 UTC), with
  // the equation of time of these days. At noon of the equinox's day 9 h 51 min are left, at 0.395 degrees a
  // day; 0.05 degrees are 12 s of the equation of time.
  EXPECT_NEAR(zenith("2019-03-20 12:07:24", 0, 0), 0.395 * 9.85 / 24, 0.05);
  EXPECT_NEAR(zenith("2019-06-21 12:01:52", 23.44, 0), 0, 0.05);
  EXPECT_NEAR(zenith("2019-12-22 11:58:25", -23.44, 0), 0, 0.05);
  EXPECT_NEAR(zenith("2019-12-22 11:58:25", 51.48, 0), 51.48 + 23.44, 0.05);
  EXPECT_NEAR(zenith("2019-06-21 00:01:52", 0, 180), 23.44, 0.05);  // noon at the date line
  EXPECT_GT(zenith("2019-06-21 00:01:52", 0, 0), 150);
  float day[2];
  data::compute_forcings({"day_of_year"}, *data::seconds_of(0, "hours since 2019-01-01", ""), {0}, {0}, 1, 1,
                         day);
  EXPECT_NEAR(day[0], 0, 1e-6);
  EXPECT_NEAR(day[1], 1, 1e-6);
}

TEST(Selection, WhatIsMissingIsFilledByTheMeanWhereTheConfigurationSaysSo) {
  const TempDir dir;
  make({.path = dir / "a.nc",
        .hours = hours(4, 6),
        .single = {"sst"},
        .still = true,
        .gap = value(0, 0, 6, 1, 2)});
  expect_config_error(
      [&] { read(*data::open_fields(dir / "a.nc", "data.train", {"sst"})[0], 1); },
      {"a.nc", "time step 1, channel 'sst'", "missing value", "row 1, column 2", "data.mask"});
  constexpr int64_t plane = kGridRows * kGridColumns, gap = kGridColumns + 2;
  data::FieldChoice choice({"sst"});
  choice.mask = "fill";
  data::FieldFiles files = data::open_fields(dir / "a.nc", "data.train", choice);
  const data::Statistics s = data::compute_statistics(data::segments_of(files), files[0]->info().shape);
  double sum = 0, n = 0;  // of the valid points
  for (int64_t t = 0; t < 4; ++t)
    for (int64_t i = 0; i < plane; ++i)
      if (!(t == 1 && i == gap)) sum += value(0, 0, 6.0 * static_cast<double>(t), 0, i), ++n;
  EXPECT_NEAR(s.mean[0], sum / n, 1e-3);
  std::vector<float> out(plane);
  files[0]->read(1, files[0]->info().shape, &s, out.data());
  EXPECT_EQ(out[gap], 0);  // the mean, normalised
  EXPECT_NE(out[gap + 1], 0);

  make({.path = dir / "b.nc", .hours = hours(4, 6), .single = {"sst"}, .still = true});
  choice.mask = "lsm";  // 1 at every third point
  files = data::open_fields(dir / "b.nc", "data.train", choice);
  const data::Statistics masked = data::compute_statistics(data::segments_of(files), files[0]->info().shape);
  files[0]->read(2, files[0]->info().shape, &masked, out.data());
  for (int64_t i = 0; i < plane; ++i)
    EXPECT_EQ(out[i], i % 3 ? 0 : (value(0, 0, 12, 0, i) - masked.mean[0]) / masked.std[0]);
  choice.mask = "ocean";
  expect_config_error([&] { data::open_fields(dir / "b.nc", "data.train", choice); },
                      {"b.nc", "'data.mask'", "'ocean'", "orography, lsm"});
}

TEST(Selection, RefusesWhatDoesNotFitTogether) {
  const TempDir dir;
  make({.path = dir / "a.nc", .hours = hours(4, 6), .single = {"t2m"}, .still = true});
  make({.path = dir / "b.nc", .hours = hours(4, 6), .levels = true, .columns = kGridColumns - 2});
  make({.path = dir / "c.nc", .hours = hours(4, 6, 600), .levels = true});
  const auto open = [&](const std::string& with, data::FieldChoice choice) {
    return data::open_fields(dir / "a.nc" + "," + dir / with, "data.train", choice);
  };
  expect_config_error([&] { open("b.nc", {}); }, {"b.nc", "6 x 10", "a.nc, 6 x 12"});
  expect_config_error([&] { open("c.nc", {}); }, {"c.nc", "has no 2019-03-01T00:00Z", "none in common"});
  expect_config_error([&] { open("a.nc", {}); }, {"a.nc", "'data.variables'", "two channels"});
  expect_config_error([&] { open("c.nc", {"t2m"}); }, {"c.nc", "'data.variables'", "none of them", "z"});
  expect_config_error([&] { data::open_fields(dir / "a.nc", "data.train", {"z@500,x"}); },
                      {"'data.variables'", "'z@500,x'", "z@500,850,1000"});
}

TEST(Selection, StatisticsOfChangesAreThoseOfDifferences) {
  const TempDir dir;
  make({.path = dir / "a.nc", .hours = hours(40, 1), .single = {"t2m"}});
  const data::FileStatistics s = data::compute_statistics(dir / "a.nc", {}, 0, false, 6);
  EXPECT_EQ(s.mean[0], 600.0f);  // value() rises by 100 an hour
  EXPECT_EQ(s.std[0], 0.0f);
  expect_config_error([&] { data::compute_statistics(dir / "a.nc", {}, 0, false, 40); },
                      {"a.nc", "40 apart", "--dt"});
}

/// Puts an infinity into a variable, at its second step.
void put_infinity(const std::string& path, const char* name, size_t row, size_t column) {
  int nc = -1, v = -1;
  NC(nc_open(path.c_str(), NC_WRITE, &nc));
  NC(nc_inq_varid(nc, name, &v));
  const size_t at[] = {1, row, column};
  const float infinity = INFINITY;
  NC(nc_put_var1_float(nc, v, at, &infinity));
  NC(nc_close(nc));
}

// A mask leaves out what is missing; it was advised for an infinity, and then made statistics of no number.
TEST(Selection, AnInfinityIsRefusedWithAMaskAndWithout) {
  const TempDir dir;
  make({.path = dir / "a.nc", .hours = hours(4, 6), .single = {"sst"}});
  put_infinity(dir / "a.nc", "sst", 1, 2);
  data::FieldChoice choice({"sst"});
  for (const std::string mask : {"", "missing"}) {
    SCOPED_TRACE(mask);
    choice.mask = mask;
    const data::FieldFiles files = data::open_fields(dir / "a.nc", "data.train", choice);
    const auto& shape = files[0]->info().shape;
    const std::vector<std::string> said = {"a.nc", "time step 1, channel 'sst'", "an infinite value",
                                           "row 1, column 2", "or store it as missing"};
    expect_config_error([&] { read(*files[0], 1); }, said);
    expect_config_error([&] { data::compute_statistics(data::segments_of(files), shape); }, said);
    std::vector<float> out(static_cast<size_t>(shape.size())), there(out.size());
    expect_config_error([&] { files[0]->read_and_tell(1, shape, nullptr, out.data(), there.data()); }, said);
    EXPECT_NO_THROW(read(*files[0], 2));
  }
}

}  // namespace
}  // namespace isobar::test
