// The cases of tests/data/cases_test.cpp with random names, sizes and numbers.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "model/data/fields/field_file.h"
#include "model/data/files/npy.h"
#include "model/data/files/npz.h"
#include "model/data/statistics/stats.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

/// A file of one field "v" [time, row, column], whose coordinates a test writes itself.
struct NewFile {
  explicit NewFile(const std::string& path, nc_type type = NC_FLOAT) {
    EXPECT_EQ(nc_create(path.c_str(), random_int(0, 1) ? NC_NETCDF4 | NC_CLOBBER : NC_CLOBBER, &nc),
              NC_NOERR);
    nc_def_dim(nc, "time", steps, &dims[0]);
    nc_def_dim(nc, row_name.c_str(), rows, &dims[1]);
    nc_def_dim(nc, column_name.c_str(), columns, &dims[2]);
    nc_def_var(nc, "v", type, 3, dims, &v);
    std::vector<double> hours(steps);
    for (size_t t = 0; t < steps; ++t) hours[t] = 6 * static_cast<double>(t);
    put("time", {dims[0]}, "hours since 2001-02-03", hours);
  }
  ~NewFile() { nc_close(nc); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void text(int of, const char* attribute, const std::string& value) const {
    nc_put_att_text(nc, of, attribute, value.size(), value.c_str());
  }
  int put(const std::string& name, const std::vector<int>& along, const std::string& units,
          const std::vector<double>& values, nc_type type = NC_DOUBLE,
          const std::function<void(int)>& attributes = {}) const {
    int id = -1;
    nc_redef(nc);
    EXPECT_EQ(nc_def_var(nc, name.c_str(), type, static_cast<int>(along.size()), along.data(), &id),
              NC_NOERR);
    if (!units.empty()) text(id, "units", units);
    if (attributes) attributes(id);
    nc_enddef(nc);
    EXPECT_EQ(nc_put_var_double(nc, id, values.data()), NC_NOERR);
    return id;
  }
  void fill(const std::vector<double>& values) const {
    nc_enddef(nc);
    EXPECT_EQ(nc_put_var_double(nc, v, values.data()), NC_NOERR);
  }
  size_t size() const { return steps * rows * columns; }

  size_t steps = static_cast<size_t>(random_int(2, 5)), rows = static_cast<size_t>(random_int(3, 7)),
         columns = static_cast<size_t>(random_int(3, 9));
  std::string row_name = "j" + std::to_string(random_int(0, 99)),
              column_name = "i" + std::to_string(random_int(0, 99));
  int nc = -1, dims[3] = {}, v = -1;
};

std::vector<double> random_doubles(size_t n, double low, double high) {
  std::vector<double> x(n);
  for (double& one : x) one = std::uniform_real_distribution<double>(low, high)(rng());
  return x;
}

std::vector<double> evenly(size_t n, double from, double to) {
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i)
    x[i] = std::lerp(from, to, static_cast<double>(i) / static_cast<double>(n - 1));
  return x;
}

data::FieldChoice with_gaps() {
  data::FieldChoice c;
  c.mask = "missing";
  return c;
}

// --- a key twice -----------------------------------------------------------------------------------------

/// A zip with stored members in the given order and with any names, some of which libzip and zipfile would
/// refuse.
void write_members(const std::string& path, const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out, list;
  const auto number = [](std::string& to, uint64_t n, int bytes) {
    for (int i = 0; i < bytes; ++i) to += static_cast<char>(n >> (8 * i));
  };
  for (const auto& [name, bytes] : members) {
    const size_t at = out.size();
    const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    std::string head;
    number(head, 20, 2), number(head, 0, 2), number(head, 0, 2), number(head, 0, 2), number(head, 33, 2);
    number(head, crc, 4), number(head, bytes.size(), 4), number(head, bytes.size(), 4);
    number(head, name.size(), 2), number(head, 0, 2);
    out += "PK\3\4" + head + name + bytes;
    list += "PK\1\2";
    number(list, 20, 2);
    list += head;
    number(list, 0, 2), number(list, 0, 2), number(list, 0, 2), number(list, 0, 4), number(list, at, 4);
    list += name;
  }
  std::string end = "PK\5\6";
  number(end, 0, 4), number(end, members.size(), 2), number(end, members.size(), 2);
  number(end, list.size(), 4), number(end, out.size(), 4), number(end, 0, 2);
  std::ofstream(path, std::ios::binary) << out << list << end;
}

std::string bytes_of(const std::vector<float>& x) {
  return {reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float)};
}

std::string array_json(const nlohmann::json& shape, const std::vector<std::string>& names,
                       const nlohmann::json& attributes) {
  return nlohmann::json{{"zarr_format", 3},
                        {"node_type", "array"},
                        {"shape", shape},
                        {"data_type", "float32"},
                        {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", shape}}}}},
                        {"chunk_key_encoding", {{"name", "default"}}},
                        {"fill_value", 0},
                        {"codecs", {{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}}},
                        {"dimension_names", names},
                        {"attributes", attributes}}
      .dump();
}

TEST(Anew, AKeyTwiceInAZip) {
  const TempDir dir;
  const int64_t t = random_int(2, 4), h = random_int(2, 5), w = random_int(2, 5);
  const std::vector<float> old = random_floats(t * h * w, 0, 1), now = random_floats(t * h * w, 100, 5);
  std::vector<float> axis(static_cast<size_t>(std::max({t, h, w})));
  for (size_t i = 0; i < axis.size(); ++i) axis[i] = static_cast<float>(i);
  const auto part = [&](int64_t n) { return bytes_of({axis.begin(), axis.begin() + n}); };
  std::vector<std::pair<std::string, std::string>> members = {
      {"zarr.json", R"({"zarr_format":3,"node_type":"group","attributes":{}})"},
      {"v/zarr.json", array_json({t, h, w}, {"time", "lat", "lon"}, {{"units", "old"}})},
      {"v/c/0/0/0", bytes_of(old)},
      {"time/zarr.json", array_json({t}, {"time"}, {{"units", "hours since 2000-01-01"}})},
      {"lat/zarr.json", array_json({h}, {"lat"}, {{"units", "degrees_north"}})},
      {"lon/zarr.json", array_json({w}, {"lon"}, {{"units", "degrees_east"}})},
      {"time/c/0", part(t)},
      {"lat/c/0", part(h)},
      {"lon/c/0", part(w)},
      {"v/zarr.json", array_json({t, h, w}, {"time", "lat", "lon"}, {{"units", "now"}})},
      {"v/c/0/0/0", bytes_of(now)}};
  write_members(dir / "z.zip", members);
  const data::FieldFiles files = data::open_fields(dir / "z.zip", "data.train", {});
  EXPECT_EQ(files.at(0)->info().units[0], "now");
  std::vector<float> got(static_cast<size_t>(h * w));
  files[0]->read(0, files[0]->info().shape, nullptr, got.data());
  for (int64_t i = 0; i < h; ++i)  // north first
    for (int64_t j = 0; j < w; ++j) EXPECT_EQ(got[i * w + j], now[(h - 1 - i) * w + j]);

  const auto npy = [&](const std::vector<float>& x) {
    return data::npy_bytes("<f4", {t, h, w}, bytes_of(x));
  };
  write_members(dir / "a.npz", {{"v.npy", npy(old)}, {"v.npy", npy(now)}});
  const data::NpzFile npz(dir / "a.npz", "");
  EXPECT_EQ(npz.names(), std::vector<std::string>{"v"});
  EXPECT_EQ(npz.read("v").values[0], static_cast<double>(now[0]));
  std::vector<float> of_npz(static_cast<size_t>(h * w));
  data::open_fields(dir / "a.npz", "data.train", {}).at(0)->read(0, {1, h, w}, nullptr, of_npz.data());
  EXPECT_EQ(of_npz[0], now[0]);
}

// --- coordinates -----------------------------------------------------------------------------------------

TEST(Anew, CoordinatesInPackedNumbersAndRadians) {
  for (int round = 0; round < 8; ++round) {
    const TempDir dir;
    const double north = std::floor(random_doubles(1, 40, 80)[0]),
                 south = std::floor(random_doubles(1, -60, 30)[0]);
    const double east = std::floor(random_doubles(1, 20, 300)[0]);
    const bool packed = random_int(0, 1), up = random_int(0, 1);
    {
      const NewFile f(dir / "c.nc");
      std::vector<double> lat = evenly(f.rows, up ? south : north, up ? north : south),
                          lon = evenly(f.columns, 0, east);
      const double factor = packed ? 0.01 : 180 / std::numbers::pi;
      for (auto* x : {&lat, &lon})
        for (double& one : *x) one = packed ? std::round((one - 10) / factor) : one / factor;
      const auto how = [&](const char* standard) {
        return [&f, packed, standard, factor](int id) {
          f.text(id, "standard_name", standard);
          const double offset = 10;
          if (packed) nc_put_att_double(f.nc, id, "scale_factor", NC_DOUBLE, 1, &factor);
          if (packed) nc_put_att_double(f.nc, id, "add_offset", NC_DOUBLE, 1, &offset);
        };
      };
      const nc_type type = packed ? NC_SHORT : NC_DOUBLE;
      f.put(f.row_name, {f.dims[1]}, packed ? "degrees_north" : "radian", lat, type, how("latitude"));
      f.put(f.column_name, {f.dims[2]}, packed ? "degrees_east" : "radian", lon, type, how("longitude"));
      f.fill(random_doubles(f.size(), 0, 1));
    }
    const nlohmann::json j = data::inspect(dir / "c.nc");
    EXPECT_NEAR(j["latitude"][0].get<double>(), north, 0.01);
    EXPECT_NEAR(j["latitude"][1].get<double>(), south, 0.01);
    EXPECT_NEAR(j["longitude"][1].get<double>(), east, 0.01);
  }
}

TEST(Anew, CoordinatesOfTwoDimensions) {
  for (const bool bent : {true, false})
    for (const bool rotated : {true, false}) {
      const TempDir dir;
      std::vector<double> lat, lon;
      {
        const NewFile f(dir / "c.nc");
        for (size_t i = 0; i < f.rows; ++i)
          for (size_t j = 0; j < f.columns; ++j) {
            const double bend = bent ? 0.3 * static_cast<double>(i * j) : 0;
            lat.push_back(20 + 3 * static_cast<double>(i) + bend),
                lon.push_back(4 * static_cast<double>(j) + bend);
          }
        nc_redef(f.nc);
        f.text(f.v, "coordinates", "where_n where_e");
        if (rotated)
          for (const int d : {1, 2})
            f.put(d == 1 ? f.row_name : f.column_name, {f.dims[d]}, "degrees",
                  evenly(d == 1 ? f.rows : f.columns, -3, 3), NC_DOUBLE,
                  [&](int id) { f.text(id, "standard_name", d == 1 ? "grid_latitude" : "grid_longitude"); });
        f.put("where_n", {f.dims[1], f.dims[2]}, "degrees_north", lat);
        f.put("where_e", {f.dims[1], f.dims[2]}, "degrees_east", lon);
        f.fill(random_doubles(f.size(), 0, 1));
      }
      const nlohmann::json j = data::inspect(dir / "c.nc");
      EXPECT_NEAR(j["latitude"][0].get<double>(), *std::max_element(lat.begin(), lat.end()), 1e-3);
      EXPECT_NEAR(j["latitude"][1].get<double>(), 20, 1e-3);
      EXPECT_EQ(j.contains("no_degrees"), bent);
      data::FieldChoice region;
      region.region = {25, 0, 21, 8};
      if (bent)
        expect_config_error([&] { data::inspect(dir / "c.nc", region); }, {"'data.region'", "where_n"});
      else
        EXPECT_NO_THROW(data::inspect(dir / "c.nc", region));
    }
}

TEST(Anew, RowsThatAreNoDegrees) {
  const std::string units[] = {"m", "km", "1", ""};
  for (const std::string& unit : units) {
    const TempDir dir;
    {
      const NewFile f(dir / "c.nc");
      for (const int d : {1, 2})
        f.put(d == 1 ? f.row_name : f.column_name, {f.dims[d]}, unit,
              evenly(d == 1 ? f.rows : f.columns, 0, 5000), NC_DOUBLE,
              [&](int id) { f.text(id, "axis", d == 1 ? "Y" : "X"); });
      f.fill(random_doubles(f.size(), 0, 1));
    }
    const nlohmann::json j = data::inspect(dir / "c.nc");
    EXPECT_FALSE(j.contains("latitude")) << unit;
    EXPECT_TRUE(j.contains("no_degrees")) << unit;
    data::FieldChoice region;
    region.region = {25, 0, 21, 8};
    expect_config_error([&] { data::inspect(dir / "c.nc", region); }, {"'data.region'", "no degrees"});
  }
}

TEST(Anew, CoordinatesThatAreNowhereAreRefused) {
  struct Case {
    std::vector<double> lat, lon;
    const char* why;
  };
  const double nan = std::nan("");
  for (const Case& c :
       {Case{{91, 50, 0}, {0, 1, 2}, "beyond 90"}, Case{{50, -90.5, -95}, {0, 1, 2}, "beyond 90"},
        Case{{50, 40, 45}, {0, 1, 2}, "one way"}, Case{{50, 50, 45}, {0, 1, 2}, "two rows"},
        Case{{50, nan, 45}, {0, 1, 2}, "no value"}, Case{{50, 40, 30}, {0, 2, 1}, "one way"},
        Case{{50, 40, 30}, {0, nan, 1}, "no value"},
        Case{{50, 40, 30}, {0, 150, 300, 450}, "more than once"}}) {
    const TempDir dir;
    {
      NewFile f(dir / "c.nc");
      // Dimensions of the case's sizes
      nc_redef(f.nc);
      int d[3] = {f.dims[0], 0, 0}, v = 0;
      nc_def_dim(f.nc, "lat", c.lat.size(), &d[1]), nc_def_dim(f.nc, "lon", c.lon.size(), &d[2]);
      nc_def_var(f.nc, "w", NC_FLOAT, 3, d, &v);
      f.put("lat", {d[1]}, "degrees_north", c.lat), f.put("lon", {d[2]}, "degrees_east", c.lon);
      f.fill(random_doubles(f.size(), 0, 1));
    }
    expect_config_error([&] { data::inspect(dir / "c.nc"); }, {"c.nc", c.why});
  }
}

TEST(Anew, ACyclicPointIsCountedOnce) {
  const TempDir dir;
  std::vector<double> values;
  size_t rows = 0, columns = 0;
  {
    const NewFile f(dir / "c.nc");
    rows = f.rows, columns = f.columns;
    f.put(f.row_name, {f.dims[1]}, "degrees_north", evenly(f.rows, 60, -60));
    f.put(f.column_name, {f.dims[2]}, "degrees_east", evenly(f.columns, -180, 180));
    f.fill(values = random_doubles(f.size(), 0, 1));
  }
  const data::FieldFiles files = data::open_fields(dir / "c.nc", "data.train", {});
  const data::FieldInfo& info = files.at(0)->info();
  ASSERT_EQ(info.shape.width, static_cast<int64_t>(columns) - 1);
  EXPECT_EQ(info.longitude.size(), columns - 1);
  std::vector<float> got(rows * (columns - 1));
  files[0]->read(0, info.shape, nullptr, got.data());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j + 1 < columns; ++j)
      EXPECT_EQ(got[i * (columns - 1) + j], static_cast<float>(values[i * columns + j]));
  EXPECT_NE(data::inspect_text(data::inspect(dir / "c.nc")).find("is the first again"), std::string::npos);
}

// --- what is missing -------------------------------------------------------------------------------------

struct Limits {
  const char* attribute;
  nc_type type;
  std::vector<double> values;
  double low, high;  // of what stays, unpacked
};

TEST(Anew, RangesInPackedAndInUnpackedUnits) {
  const double scale = random_int(0, 1) ? 0.02 : -0.02, offset = 270;
  const auto stored = [&](double x) { return std::round((x - offset) / scale); };
  const double a = std::min(stored(262), stored(281)), b = std::max(stored(262), stored(281)), inf = HUGE_VAL;
  for (const Limits& l :
       {Limits{"valid_range", NC_FLOAT, {260, 280}, 260, 280},
        Limits{"valid_range", NC_DOUBLE, {260, 280}, 260, 280},
        Limits{"valid_min", NC_FLOAT, {265}, 265, inf}, Limits{"valid_max", NC_DOUBLE, {275}, -inf, 275},
        Limits{"valid_range", NC_SHORT, {a, b}, 262, 281}}) {
    const TempDir dir;
    double sum = 0, n = 0;
    {
      const NewFile f(dir / "m.nc", NC_SHORT);
      nc_redef(f.nc);
      nc_put_att_double(f.nc, f.v, "scale_factor", NC_DOUBLE, 1, &scale);
      nc_put_att_double(f.nc, f.v, "add_offset", NC_DOUBLE, 1, &offset);
      nc_put_att_double(f.nc, f.v, l.attribute, l.type, l.values.size(), l.values.data());
      f.put(f.row_name, {f.dims[1]}, "degrees_north", evenly(f.rows, 60, -60));
      f.put(f.column_name, {f.dims[2]}, "degrees_east", evenly(f.columns, 0, 90));
      std::vector<double> values = random_doubles(f.size(), 255, 290);
      values[0] = 270;
      for (double& x : values) {
        x = stored(x);
        const double real = x * scale + offset;
        if (real >= l.low - 1e-9 && real <= l.high + 1e-9) sum += real, ++n;
      }
      f.fill(values);
    }
    EXPECT_NEAR(static_cast<double>(data::compute_statistics(dir / "m.nc", with_gaps()).mean[0]), sum / n,
                1e-3)
        << l.attribute << " " << l.type << " scale " << scale;
  }
}

TEST(Anew, AMissingValueOfAnotherWidth) {
  for (const double fill : {1e20, -9999.9, 1.1e-3, 9.96921e36}) {
    const TempDir dir;
    double sum = 0, n = 0;
    {
      const NewFile f(dir / "m.nc");
      nc_redef(f.nc);
      nc_put_att_double(f.nc, f.v, "missing_value", NC_DOUBLE, 1, &fill);
      f.put(f.row_name, {f.dims[1]}, "degrees_north", evenly(f.rows, 60, -60));
      f.put(f.column_name, {f.dims[2]}, "degrees_east", evenly(f.columns, 0, 90));
      std::vector<double> values = random_doubles(f.size(), 255, 290);
      for (size_t i = 0; i < values.size(); ++i)
        if (i % 3 == 1)
          values[i] = fill;
        else
          sum += values[i], ++n;
      f.fill(values);
    }
    EXPECT_NEAR(static_cast<double>(data::compute_statistics(dir / "m.nc", with_gaps()).mean[0]), sum / n,
                1e-3)
        << fill;
  }
}

// --- times -----------------------------------------------------------------------------------------------

TEST(Anew, TimesThatAreNotUnderstoodMakeNoPairs) {
  for (const char* units : {"months since 2000-01-01", "fortnights since 2000-01-01", "day as %Y%m%d.%f",
                            "hours since the flood"}) {
    const TempDir dir;
    NetcdfOptions o{.time_units = units};
    write_netcdf(dir / "t.nc", o, {random_packed(o)});
    const nlohmann::json j = data::inspect(dir / "t.nc");
    EXPECT_EQ(j["pairs"], 0) << units;
    EXPECT_NE(data::inspect_text(j).find("not understood"), std::string::npos) << units;
    DataSpec d;
    d.train = dir / "t.nc";
    const data::FieldShape shape{1, o.rows, o.columns};
    expect_config_error([&] { data::open_dataset(d, d.train, data::Split::train, shape); },
                        {"t.nc", "'data.train'", "time axis 'time'", "no pairs"});
    d.region = {60, 0, 55, 300};  // chosen, and times just as unknown
    expect_config_error([&] { data::open_dataset(d, d.train, data::Split::train, shape); },
                        {"t.nc", "time axis 'time'"});
    data::FieldChoice dates;
    dates.dates = {"2000", "2001"};
    expect_config_error([&] { data::inspect(dir / "t.nc", dates); }, {"'data.dates'", "time axis 'time'"});
    EXPECT_NO_THROW(data::compute_statistics(dir / "t.nc")) << units;  // of steps alone
    expect_config_error([&] { data::compute_statistics(dir / "t.nc", {}, 0, false, 1); },
                        {"time axis 'time'"});
  }
}

TEST(Anew, CalendarsOfClimateModels) {
  const TempDir dir;
  NetcdfOptions o{.time_units = "days since 2000-02-28"};
  write_netcdf(dir / "t.nc", o, {random_packed(o)});
  const auto calendar = [&](const char* name) {
    int nc = -1, v = -1;
    nc_open((dir / "t.nc").c_str(), NC_WRITE, &nc);
    nc_redef(nc), nc_inq_varid(nc, "time", &v);
    nc_put_att_text(nc, v, "calendar", strlen(name), name);
    nc_close(nc);
  };
  data::FieldChoice february;
  february.dates = {"2000-02", "2000-02"};
  for (const auto& [name, days, last] :
       {std::tuple{"360_day", 3, "2000-03-02T00:00Z"}, std::tuple{"noleap", 1, "2000-03-04T00:00Z"},
        std::tuple{"366_day", 2, "2000-03-03T00:00Z"}, std::tuple{"standard", 2, "2000-03-03T00:00Z"}}) {
    calendar(name);
    EXPECT_EQ(data::inspect(dir / "t.nc")["last_time"], last) << name;
    EXPECT_EQ(data::inspect(dir / "t.nc", february)["steps"], days) << name;
  }
  calendar("360_day");
  write_netcdf(dir / "u.nc", o, {random_packed(o)});
  expect_config_error([&] { data::inspect(dir / "t.nc" + "," + (dir / "u.nc")); },
                      {"u.nc", "calendar", "'360_day'"});
  data::FieldChoice sun;
  sun.forcings = {"solar_zenith"};
  expect_config_error([&] { data::inspect(dir / "t.nc", sun); }, {"'data.forcings'", "other days"});
}

TEST(Anew, ATimeWithoutAValueIsNamed) {
  const TempDir dir;
  NetcdfOptions o;
  o.times = {0, 1, std::nan(""), 3, 4};
  write_netcdf(dir / "t.nc", o, {random_packed(o)});
  expect_config_error([&] { data::inspect(dir / "t.nc"); }, {"'time'", "no value at step 2"});
}

// --- omissions, and reasons for an empty archive ----------------------------------------------------------

TEST(Anew, WhatIsBesideTheFieldsIsListed) {
  const TempDir dir;
  NetcdfOptions o;
  write_netcdf(dir / "l.nc", o, {random_packed(o)});
  int nc = -1, group = -1, time = -1, n = -1, v = -1;
  NC(nc_open((dir / "l.nc").c_str(), NC_WRITE, &nc));
  nc_redef(nc);
  NC(nc_inq_dimid(nc, "time", &time));
  NC(nc_def_dim(nc, "letters", 4, &n));
  const int both[] = {time, n};
  NC(nc_def_var(nc, "names", NC_CHAR, 2, both, &v));
  NC(nc_def_var(nc, "series", NC_FLOAT, 2, both, &v));
  NC(nc_def_grp(nc, "more", &group));
  NC(nc_def_var(group, "x", NC_FLOAT, 1, &time, &v));
  NC(nc_close(nc));
  const std::string text = data::inspect_text(data::inspect(dir / "l.nc"));
  for (const char* part :
       {"'names' holds text", "'series' lies along time (5), letters (4)", "group 'more' (x)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
}

TEST(Anew, EachCauseHasItsOwnWords) {
  const TempDir dir;
  const auto file = [&](const std::function<void(int)>& define) {
    int nc = -1;
    nc_create((dir / "w.nc").c_str(), NC_NETCDF4 | NC_CLOBBER, &nc);
    define(nc);
    nc_close(nc);
  };
  const auto variable = [](int nc, const char* name, std::vector<int> dims, const char* units,
                           nc_type type = NC_FLOAT) {
    int v = -1;
    nc_def_var(nc, name, type, static_cast<int>(dims.size()), dims.data(), &v);
    nc_put_att_text(nc, v, "units", strlen(units), units);
  };
  const auto dim = [](int nc, const char* name, size_t n) {
    int d = -1;
    nc_def_dim(nc, name, n, &d);
    return d;
  };
  const auto refused = [&](const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.emplace_back("w.nc");
    expect_config_error([&] { data::inspect(dir / "w.nc"); }, all);
  };
  file([&](int nc) {  // a mesh
    const int t = dim(nc, "time", 3), c = dim(nc, "cell", 20);
    variable(nc, "clat", {c}, "degrees_north"), variable(nc, "clon", {c}, "degrees_east");
    variable(nc, "ts", {t, c}, "K");
  });
  refused({"'ts'", "cell (20)", "a list of points", "cdo remapbil"});
  file([&](int nc) {  // axes without attributes
    const int t = dim(nc, "time", 3), y = dim(nc, "a", 4), x = dim(nc, "b", 5);
    variable(nc, "ts", {t, y, x}, "K");
  });
  refused({"'ts'", "a (4), b (5)", "degrees_north"});
  file([&](int nc) {  // no time
    const int y = dim(nc, "lat", 4), x = dim(nc, "lon", 5);
    variable(nc, "ts", {y, x}, "K");
  });
  refused({"'ts'", "none of these is a time"});
  file([&](int nc) {  // no longitude
    const int t = dim(nc, "time", 3), y = dim(nc, "lat", 4), x = dim(nc, "wave", 5);
    variable(nc, "ts", {t, y, x}, "K");
  });
  refused({"'ts'", "none of these is a longitude"});
  file([&](int nc) {  // text alone
    const int t = dim(nc, "time", 3), y = dim(nc, "lat", 4);
    variable(nc, "words", {t, y}, "", NC_CHAR);
  });
  refused({"'words' holds text"});
  file([&](int nc) { dim(nc, "time", 3); });
  refused({"no variable but coordinates"});
}

}  // namespace
}  // namespace isobar::test
