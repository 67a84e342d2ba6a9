// Samples from points of gridded fields keep their latitude, longitude and time, whatever way files say them.
// Each value encodes where it was written.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "model/data/tables/table_dataset.h"
#include "model/data/written/forecast_file.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

constexpr int kOfSteps = 3, kOfLevels = 2, kOfRows = 5, kOfColumns = 7;

double latitude(int r, int c) {
  return 60 - 3 * r + 0.125 * c;
}
double longitude(int r, int c) {
  return 10 + 2 * c - 0.25 * r;
}

enum class Coordinate { axes, planes, list, none };

struct Axis {
  const char *name, *units;
};

int define(int file, const Axis& axis, const std::vector<int>& dims) {
  int id = -1;
  EXPECT_EQ(nc_def_var(file, axis.name, NC_DOUBLE, static_cast<int>(dims.size()), dims.data(), &id),
            NC_NOERR);
  nc_put_att_text(file, id, "units", std::strlen(axis.units), axis.units);
  return id;
}

// [time, level, row, column], or [time, level, cell]; a: a point's index in its step, b: its step, some
// missing
void write(const std::string& path, Coordinate kind) {
  int file = 0, time = 0, level = 0, row = 0, column = 0;
  ASSERT_EQ(nc_create(path.c_str(), NC_CLOBBER | NC_NETCDF4, &file), NC_NOERR);
  nc_def_dim(file, "time", kOfSteps, &time);
  nc_def_dim(file, "level", kOfLevels, &level);
  std::vector<int> dims = {time, level};
  if (kind == Coordinate::list) {
    nc_def_dim(file, "cell", kOfRows * kOfColumns, &row);
    dims.push_back(row);
  } else {
    nc_def_dim(file, kind == Coordinate::axes ? "lat" : "y", kOfRows, &row);
    nc_def_dim(file, kind == Coordinate::axes ? "lon" : "x", kOfColumns, &column);
    dims.insert(dims.end(), {row, column});
  }
  const int times = define(file, {"time", "hours since 2020-01-01"}, {time});
  std::vector<int> of_lat = {row}, of_lon = {kind == Coordinate::list ? row : column};
  if (kind == Coordinate::planes) of_lat = of_lon = {row, column};
  const int lat = kind == Coordinate::none ? -1 : define(file, {"lat", "degrees_north"}, of_lat),
            lon = kind == Coordinate::none ? -1 : define(file, {"lon", "degrees_east"}, of_lon);
  int a = 0, b = 0;
  nc_def_var(file, "a", NC_FLOAT, static_cast<int>(dims.size()), dims.data(), &a);
  nc_def_var(file, "b", NC_FLOAT, static_cast<int>(dims.size()), dims.data(), &b);
  for (const int v : {a, b}) nc_put_att_text(file, v, "coordinates", 7, "lat lon");
  ASSERT_EQ(nc_enddef(file), NC_NOERR);
  std::vector<double> hours, north, east;
  std::vector<float> point, step;
  for (int t = 0; t < kOfSteps; ++t) {
    hours.push_back(6.5 * t);
    for (int i = 0; i < kOfLevels * kOfRows * kOfColumns; ++i) {
      point.push_back(random_int(0, 5) == 0 ? NAN : static_cast<float>(i));
      step.push_back(static_cast<float>(t));
    }
  }
  const bool axes = kind == Coordinate::axes;
  for (int r = 0; r < kOfRows; ++r)
    for (int c = 0; c < kOfColumns; ++c) {
      if (!axes || c == 0) north.push_back(latitude(r, axes ? 0 : c));
      if (!axes || r == 0) east.push_back(longitude(axes ? 0 : r, c));
    }
  ASSERT_EQ(nc_put_var_double(file, times, hours.data()), NC_NOERR);
  if (lat >= 0) ASSERT_EQ(nc_put_var_double(file, lat, north.data()), NC_NOERR);
  if (lon >= 0) ASSERT_EQ(nc_put_var_double(file, lon, east.data()), NC_NOERR);
  ASSERT_EQ(nc_put_var_float(file, a, point.data()), NC_NOERR);
  ASSERT_EQ(nc_put_var_float(file, b, step.data()), NC_NOERR);
  ASSERT_EQ(nc_close(file), NC_NOERR);
}

class PointPlaces : public ::testing::TestWithParam<Coordinate> {
 protected:
  void SetUp() override {
    ::setenv("ISOBAR_CACHE_DIR", (dir / "cache").c_str(), 1);
    write(path, GetParam());
    DataSpec data;
    data.train = path, data.inputs = {"a"}, data.targets = {"b"}, data.thin_fraction = 0.8,
    data.max_patterns = 90;
    data::SampleShape shape({1, 1, 1}, {1, 1, 1});
    shape.of_table = true;
    const data::Statistics physical;
    set = data::open_table(data, path, data::Split::valid, shape, &physical);
    ASSERT_GT(set->size(), 40);
  }
  // Latitude, longitude and hour of sample i, from its own values
  std::array<double, 3> expected(int64_t i) const {
    float point = 0, step = 0;
    set->read(i, &point, &step);
    const int at = static_cast<int>(point) % (kOfRows * kOfColumns), r = at / kOfColumns, c = at % kOfColumns;
    const bool axes = GetParam() == Coordinate::axes;
    return {latitude(r, axes ? 0 : c), longitude(axes ? 0 : r, c), 6.5 * static_cast<double>(step)};
  }
  TempDir dir;
  std::string path = dir / "ocean.nc";
  std::unique_ptr<data::Dataset> set;
};

TEST_P(PointPlaces, AreThoseOfThePointsThatWereKept) {
  const data::Coordinates at = set->places();
  const auto n = static_cast<size_t>(set->size());
  ASSERT_EQ(at.times.size(), n);
  EXPECT_EQ(at.time_units, "hours since 2020-01-01");
  ASSERT_EQ(at.latitude.size(), GetParam() == Coordinate::none ? 0 : n);
  ASSERT_EQ(at.longitude.size(), at.latitude.size());
  for (size_t i = 0; i < n; ++i) {
    const auto [north, east, hour] = expected(static_cast<int64_t>(i));
    EXPECT_EQ(at.times[i], hour) << i;
    if (at.latitude.empty()) continue;
    EXPECT_NEAR(at.latitude[i], north, 1e-9) << i;
    EXPECT_NEAR(at.longitude[i], east, 1e-9) << i;
  }
}

TEST_P(PointPlaces, AreInTheFilesOfForecasts) {
  const std::string out = dir / "forecast.nc";
  data::ForecastFile file(out, {}, set->size(), set->shape(), {"b"}, set->places());
  for (int64_t i = 0; i < set->size(); ++i) {
    const float value = static_cast<float>(i);
    file.append(&value, NAN);
  }
  file.finish();
  int id = 0, v = 0;
  ASSERT_EQ(nc_open(out.c_str(), NC_NOWRITE, &id), NC_NOERR);
  const auto read = [&](const char* name) {
    std::vector<double> x(static_cast<size_t>(set->size()));
    EXPECT_EQ(nc_inq_varid(id, name, &v), NC_NOERR) << name;
    EXPECT_EQ(nc_get_var_double(id, v, x.data()), NC_NOERR) << name;
    return x;
  };
  const std::vector<double> hours = read("time");
  const bool placed = GetParam() != Coordinate::none;
  EXPECT_EQ(nc_inq_varid(id, "latitude", &v) == NC_NOERR, placed);
  const std::vector<double> north = placed ? read("latitude") : hours,
                            east = placed ? read("longitude") : hours;
  for (int64_t i = 0; i < set->size(); ++i) {
    const auto [lat, lon, hour] = expected(i);
    EXPECT_EQ(hours[static_cast<size_t>(i)], hour);
    if (placed) EXPECT_NEAR(north[static_cast<size_t>(i)], lat, 1e-9);
    if (placed) EXPECT_NEAR(east[static_cast<size_t>(i)], lon, 1e-9);
  }
  char said[64] = "";
  read("b");
  EXPECT_EQ(nc_get_att_text(id, v, "coordinates", said), NC_NOERR);
  EXPECT_EQ(std::string(said), placed ? "time latitude longitude" : "time");
  nc_close(id);
}

INSTANTIATE_TEST_SUITE_P(OfFiles, PointPlaces,
                         ::testing::Values(Coordinate::axes, Coordinate::planes, Coordinate::list,
                                           Coordinate::none));

}  // namespace
}  // namespace isobar::test
