// Small files of other programs (tests/fixtures/cases), each of which was once misread without an error: the
// values must be right, or one error must give the reason.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/data/dataset.h"
#include "model/data/files/foreign.h"
#include "model/data/statistics/stats.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"
#include "tests/paths.h"

namespace isobar::test {
namespace {

std::string case_file(const std::string& name) {
  return source_dir() + "/tests/fixtures/cases/" + name;
}

data::FieldChoice missing_allowed() {
  data::FieldChoice c;
  c.mask = "missing";
  return c;
}

float mean_of(const std::string& name, size_t channel = 0) {
  return data::compute_statistics(case_file(name), missing_allowed()).mean.at(channel);
}

void expect_times(const std::string& name, const std::string& first, const std::string& last) {
  const nlohmann::json j = data::inspect(case_file(name));
  EXPECT_EQ(j["first_time"], first) << name;
  EXPECT_EQ(j["last_time"], last) << name;
}

void expect_area(const std::string& name, double north, double south, double west, double east) {
  const nlohmann::json j = data::inspect(case_file(name));
  EXPECT_NEAR(j["latitude"][0].get<double>(), north, 1e-3) << name;
  EXPECT_NEAR(j["latitude"][1].get<double>(), south, 1e-3) << name;
  EXPECT_NEAR(j["longitude"][0].get<double>(), west, 1e-3) << name;
  EXPECT_NEAR(j["longitude"][1].get<double>(), east, 1e-3) << name;
}

TEST(Cases, OfAKeyTwiceInAZipTheLastCounts) {
  EXPECT_NEAR(mean_of("zip_chunk_written_again.zarr3.zip"), 282.265, 1e-3);
  const nlohmann::json j = data::inspect(case_file("zip_attributes_written_again.zarr3.zip"));
  EXPECT_EQ(j["fields"][0]["units"], "K");
  EXPECT_NEAR(j["fields"][0]["min"].get<double>(), 280, 1e-3);
  EXPECT_NEAR(j["fields"][0]["max"].get<double>(), 284.5, 1e-3);
}

TEST(Cases, TheStandardCalendarIsJulianBefore1582) {
  expect_times("year1_standard.nc", "2002-01-19T00:00Z", "2002-01-19T18:00Z");
}

TEST(Cases, TimesHaveZonesAndSmallUnits) {
  expect_times("zone_minus6.nc", "2000-01-01T06:00Z", "2000-01-02T00:00Z");
  expect_times("microseconds.nc", "2000-01-01T00:00Z", "2000-01-01T18:00Z");
  data::FieldChoice of_a_day;
  of_a_day.dates = {"2000-01-01", "2000-01-01"};
  EXPECT_EQ(data::inspect(case_file("microseconds.nc"), of_a_day)["steps"], 4);
}

TEST(Cases, DatesOfNumpyInZarr) {
  expect_times("datetime64_gap.zarr2.zip", "2000-01-01T00:00Z", "2000-02-12T04:00Z");
  EXPECT_EQ(data::inspect(case_file("datetime64_gap.zarr2.zip"))["pairs"], 4);
}

TEST(Cases, CoordinatesArePackedAsFieldsAre) {
  expect_area("packed_latlon.nc", 50, 30, 0, 25);
}

// The two-dimensional coordinates reduce to rows and columns.
TEST(Cases, CoordinatesOfTwoDimensionsAreUsed) {
  for (const char* name : {"coordinates_2d.nc", "projected_metres.nc"}) {
    const nlohmann::json j = data::inspect(case_file(name));
    EXPECT_GT(j["latitude"][0], j["latitude"][1]) << name;
    EXPECT_LE(j["latitude"][0], 90) << name;
    data::FieldChoice region;
    region.region = {60, -180, 45, 180};
    const double north = j["latitude"][0], south = j["latitude"][1];
    if (south > 60 || north < 45) {
      expect_config_error([&] { data::inspect(case_file(name), region); },
                          {name, "'data.region'", "no row lies"});
      continue;
    }
    const nlohmann::json inside = data::inspect(case_file(name), region);
    EXPECT_LE(inside["latitude"][0], 60) << name;
    EXPECT_GE(inside["latitude"][1], 45) << name;
  }
  expect_area("coordinates_2d.nc", 70, 40, data::inspect(case_file("coordinates_2d.nc"))["longitude"][0],
              data::inspect(case_file("coordinates_2d.nc"))["longitude"][1]);
}

TEST(Cases, NoLatitudeIsBeyond90) {
  expect_config_error([] { data::inspect(case_file("latitude_beyond_90.nc")); },
                      {"'lat'", "120", "beyond 90"});
}

TEST(Cases, AGribMessageOfTwoFields) {
  const nlohmann::json j = data::inspect(case_file("two_fields_a_message.grib2"));
  ASSERT_EQ(j["channels"], 2);
  EXPECT_EQ(j["fields"][0]["name"], "u500");
  EXPECT_EQ(j["fields"][1]["name"], "v500");
  EXPECT_NEAR(mean_of("two_fields_a_message.grib2", 0), 12.31, 0.01);
  EXPECT_NEAR(mean_of("two_fields_a_message.grib2", 1), -2.69, 0.01);
}

TEST(Cases, AValueOf9999BesideABitmap) {
  const data::FieldFiles files =
      data::open_fields(case_file("value_9999_under_bitmap.grib2"), "data.train", {});
  const data::FieldInfo& info = files.at(0)->info();
  std::vector<float> x(static_cast<size_t>(info.shape.size()));
  files[0]->read_with_gaps(0, info.shape, x.data());
  EXPECT_EQ(std::count_if(x.begin(), x.end(), [](float v) { return std::isnan(v); }), 1);
  EXPECT_TRUE(std::isnan(x[1 * 6 + 1]));
}

TEST(Cases, WhatIsMissingIsToldInTheVariablesOwnType) {
  EXPECT_LT(mean_of("missing_value_double.nc"), 300);
  const nlohmann::json j = data::inspect(case_file("valid_range_unpacked.nc"));
  EXPECT_EQ(j["fields"][0]["missing"], 0);
  EXPECT_NEAR(mean_of("valid_range_unpacked.nc"), 282.27, 0.1);
}

TEST(Cases, AChannelOfWhichNothingIsThereHasNoMean) {
  expect_config_error([] { data::compute_statistics(case_file("nothing_there.nc"), missing_allowed()); },
                      {"nothing_there.nc", "'gap'", "no value at all"});
  EXPECT_FALSE(data::inspect(case_file("nothing_there.nc"))["fields"][1].contains("mean"));
  const std::string text = data::inspect_text(data::inspect(case_file("nothing_there.nc")));
  EXPECT_EQ(text.find("train no net"), std::string::npos) << text;
  EXPECT_NE(text.find("data.mask: missing"), std::string::npos) << text;
}

TEST(Cases, TwoChannelsOfOneNameAreNamed) {
  const std::string file = case_file("u10_and_level_10.nc");
  expect_config_error([&] { data::inspect(file); }, {"'u10'", "variable 'u10'", "a level of variable 'u'"});
  EXPECT_EQ(data::inspect(file, {"u10"})["channels"], 1);
}

TEST(Cases, GroupsAreNamed) {
  expect_config_error([] { data::inspect(case_file("in_a_group.nc")); },
                      {"in_a_group.nc", "group 'forecast'", "t"});
  expect_config_error([] { data::inspect(case_file("inner_group.zarr3.zip")); }, {"inner_group", "group '"});
}

TEST(Cases, ATimeThatIsNoAxis) {
  expect_config_error([] { data::inspect(case_file("one_time_scalar.nc")); },
                      {"'t'", "no time axis", "'time' is one number", "ncecat"});
}

TEST(Cases, TheContentSaysWhatAFileIs) {
  const nlohmann::json j = data::inspect(case_file("netcdf4_named.h5"));
  EXPECT_EQ(j["format"], "netCDF-4");
  EXPECT_EQ(j["fields"][0]["name"], "t");
}

// WRF writes the latitudes and longitudes of its points at every time: they are no channels.
TEST(Cases, CoordinatesThatAreRepeatedAtEveryTimeAreNoFields) {
  const TempDir dir;
  int file = 0;
  std::array<int, 3> axes{};
  ASSERT_EQ(nc_create((dir / "wrf.nc").c_str(), NC_NETCDF4, &file), NC_NOERR);
  const std::array<size_t, 3> sizes{2, 3, 4};
  const char* const names[] = {"time", "south_north", "west_east"};
  for (size_t k = 0; k < 3; ++k) nc_def_dim(file, names[k], sizes[k], &axes[k]);
  const auto define = [&](const char* name, int rank, const char* units, const std::vector<double>& values) {
    int v = 0;
    EXPECT_EQ(nc_def_var(file, name, NC_DOUBLE, rank, axes.data(), &v), NC_NOERR);
    nc_put_att_text(file, v, "units", std::string(units).size(), units);
    EXPECT_EQ(nc_put_var_double(file, v, values.data()), NC_NOERR);
  };
  std::vector<double> latitude, longitude, warm;
  for (int i = 0; i < 24; ++i) {
    latitude.push_back(50 - i % 12 / 4);
    longitude.push_back(i % 4);
    warm.push_back(270 + i);
  }
  define("time", 1, "hours since 2000-01-01", {0, 6});
  define("XLAT", 3, "degree_north", latitude);
  define("XLONG", 3, "degree_east", longitude);
  define("T2", 3, "K", warm);
  nc_close(file);
  const nlohmann::json j = data::inspect(dir / "wrf.nc");
  ASSERT_EQ(j["channels"], 1);
  EXPECT_EQ(j["fields"][0]["name"], "T2");
  EXPECT_EQ(j["latitude"][0], 50);
  EXPECT_EQ(j["longitude"][1], 3);
}

}  // namespace
}  // namespace isobar::test
