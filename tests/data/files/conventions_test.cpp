// CF conventions as other programs write them: times beside starts of forecasts, units of levels, coordinates
// with gaps, and files of one folder that do not go together.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <cmath>
#include <map>

#include "model/data/fields/channels.h"
#include "model/data/fields/field_file.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

using AttributeTexts = std::map<std::string, std::string>;

struct PlainVariable {
  std::string name;
  std::vector<std::string> along;
  std::vector<double> values;
  AttributeTexts texts = {};
};

void write_plain(const std::string& path, const std::vector<std::pair<std::string, size_t>>& sizes,
                 const std::vector<PlainVariable>& variables) {
  int nc = -1;
  NC(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc));
  std::map<std::string, int> ids;
  for (const auto& [name, size] : sizes) NC(nc_def_dim(nc, name.c_str(), size, &ids[name]));
  for (const PlainVariable& w : variables) {
    int v = -1;
    std::vector<int> dims;
    for (const std::string& d : w.along) dims.push_back(ids.at(d));
    NC(nc_def_var(nc, w.name.c_str(), NC_DOUBLE, static_cast<int>(dims.size()), dims.data(), &v));
    for (const auto& [key, text] : w.texts)
      NC(nc_put_att_text(nc, v, key.c_str(), text.size(), text.c_str()));
    NC(nc_put_var_double(nc, v, w.values.data()));
  }
  NC(nc_close(nc));
}

std::vector<double> plain_values(int64_t n) {
  const std::vector<float> x = random_floats(n, 280, 10);
  return {x.begin(), x.end()};
}

const PlainVariable kPlainRows{"lat", {"lat"}, {50, 45, 40}, {{"units", "degrees_north"}}},
    kPlainColumns{"lon", {"lon"}, {0, 5, 10, 15}, {{"units", "degrees_east"}}};
const std::string kHoursSince2000 = "hours since 2000-01-01";

/// A field along `first` (4), lat and lon, with these variables beside it
std::vector<double> write_plain_field(const std::string& path, const std::string& first,
                                      const std::vector<PlainVariable>& beside) {
  const std::vector<double> t = plain_values(48);
  std::vector<PlainVariable> all = {
      kPlainRows, kPlainColumns, {"t", {first, "lat", "lon"}, t, {{"units", "K"}}}};
  all.insert(all.end(), beside.begin(), beside.end());
  write_plain(path, {{first, 4}, {"lat", 3}, {"lon", 4}}, all);
  return t;
}

// cfgrib, and xarray after it, name the axis after the forecasts' starts or their lead times.
TEST(Conventions, TimesThatAreValidCountBesideStartsAndLeadTimes) {
  const TempDir dir;
  const std::string path = dir / "a.nc";
  const double step = static_cast<double>(random_int(1, 12));
  const std::vector<double> starts = {0, 12, 24, 36};
  std::vector<double> valid;
  for (const double x : starts) valid.push_back(x + step);
  const PlainVariable time{"valid_time", {}, valid, {{"units", kHoursSince2000}, {"standard_name", "time"}}};
  const auto expect_valid = [&](const std::vector<double>& t) {
    const auto files = data::open_fields(path, "data.train", {});
    const data::FieldInfo& info = files.at(0)->info();
    EXPECT_EQ(info.times, valid);
    EXPECT_EQ(info.channels, std::vector<std::string>{"t"});
    EXPECT_TRUE(info.left_out.empty()) << info.left_out[0];
    std::vector<float> got(12, NAN);
    files[0]->read(3, info.shape, nullptr, got.data());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(t[36 + i]));
  };
  for (const auto& [axis, of] : std::vector<std::pair<std::string, std::string>>{
           {"time", "forecast_reference_time"}, {"step", "forecast_period"}}) {
    PlainVariable own{
        axis, {axis}, starts, {{"units", axis == "step" ? "hours" : kHoursSince2000}, {"standard_name", of}}};
    PlainVariable beside = time;
    beside.along = {axis};
    expect_valid(write_plain_field(path, axis, {own, beside}));
    write_plain_field(path, axis, {own});
    expect_config_error([&] { data::open_fields(path, "data.train", {}); }, {path, "'" + axis + "'", of});
  }
}

TEST(Conventions, LevelsOfAnyUnitOfPressureHaveOneName) {
  const TempDir dir;
  for (const auto& [unit, factor] : std::vector<std::pair<std::string, double>>{
           {"hPa", 1}, {"Pa", 100}, {"Pascal", 100}, {"kPa", 0.1}, {"bar", 0.001}, {"millibars", 1}}) {
    SCOPED_TRACE(unit);
    const std::vector<double> t = plain_values(96);
    write_plain(dir / "a.nc", {{"time", 4}, {"p", 2}, {"lat", 3}, {"lon", 4}},
                {kPlainRows,
                 kPlainColumns,
                 {"time", {"time"}, {0, 6, 12, 18}, {{"units", kHoursSince2000}}},
                 {"p", {"p"}, {850 * factor, 0.5 * factor}, {{"units", unit}}},
                 {"t", {"time", "p", "lat", "lon"}, t}});
    const auto files = data::open_fields(dir / "a.nc", "data.train", {.variables = {"t0.5", "t850"}});
    std::vector<float> got(24, NAN);
    files.at(0)->read(1, files[0]->info().shape, nullptr, got.data());
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(got[i], static_cast<float>(t[24 + 12 + i]));
      EXPECT_EQ(got[12 + i], static_cast<float>(t[24 + i]));
    }
  }
}

TEST(Conventions, AxesInSmallLettersAndHeightsByName) {
  const TempDir dir;
  const std::vector<double> t = plain_values(96);
  write_plain(dir / "a.nc", {{"n", 4}, {"depth", 2}, {"j", 3}, {"i", 4}},
              {{"n", {"n"}, {0, 1, 2, 3}, {{"axis", "t"}}},
               {"depth", {"depth"}, {0.5, 10}, {{"units", "m"}}},
               {"j", {"j"}, {0, 1, 2}, {{"axis", "y"}}},
               {"i", {"i"}, {0, 1, 2, 3}, {{"axis", "x"}}},
               {"t", {"n", "depth", "j", "i"}, t}});
  EXPECT_EQ(data::open_fields(dir / "a.nc", "data.train", {}).at(0)->info().channels,
            (std::vector<std::string>{"t0.5", "t10"}));
}

TEST(Conventions, ALevelWithoutValueIsRefused) {
  const TempDir dir;
  write_plain(dir / "a.nc", {{"time", 4}, {"level", 2}, {"lat", 3}, {"lon", 4}},
              {kPlainRows,
               kPlainColumns,
               {"time", {"time"}, {0, 6, 12, 18}, {{"units", kHoursSince2000}}},
               {"level", {"level"}, {500, NAN}, {{"units", "hPa"}}},
               {"t", {"time", "level", "lat", "lon"}, plain_values(96)}});
  expect_config_error([&] { data::open_fields(dir / "a.nc", "data.train", {}); },
                      {"'level'", "no value at 1"});
}

// Steps of which the times are not understood might have gaps.
TEST(Conventions, TimesInTextMakeNoPairs) {
  const TempDir dir;
  write_plain_field(dir / "a.nc", "time", {});
  EXPECT_EQ(data::segments_of(data::open_fields(dir / "a.nc", "data.train", {})).size(), 1u);
  int nc = -1, dims[2] = {}, v = -1;
  NC(nc_open((dir / "a.nc").c_str(), NC_WRITE, &nc));
  NC(nc_redef(nc));
  NC(nc_inq_dimid(nc, "time", &dims[0]));
  NC(nc_def_dim(nc, "letters", 10, &dims[1]));
  NC(nc_def_var(nc, "time", NC_CHAR, 2, dims, &v));
  NC(nc_close(nc));
  const auto files = data::open_fields(dir / "a.nc", "data.train", {});
  EXPECT_NE(files.at(0)->info().time_unread.find("'time' it holds text"), std::string::npos)
      << files[0]->info().time_unread;
  EXPECT_EQ(data::segments_of(files).size(), 4u);
}

// A satellite's disc: coordinates of two dimensions have no value beyond its edge.
TEST(Conventions, CoordinatesOfTwoDimensionsMayHaveGaps) {
  const TempDir dir;
  std::vector<double> lat, lon;
  for (int i = 0; i < 12; ++i)
    lat.push_back(i == 0 ? NAN : 50 - i), lon.push_back(i == 0 ? NAN : 5 + 0.3 * i);
  const std::vector<double> t = plain_values(48);
  write_plain(dir / "a.nc", {{"time", 4}, {"y", 3}, {"x", 4}},
              {{"time", {"time"}, {0, 6, 12, 18}, {{"units", kHoursSince2000}}},
               {"lat", {"y", "x"}, lat, {{"units", "degrees_north"}}},
               {"lon", {"y", "x"}, lon, {{"units", "degrees_east"}}},
               {"t", {"time", "y", "x"}, t}});
  data::FieldChoice choice;
  choice.mask = "missing";  // goes through the comparison of grids
  const auto files = data::open_fields(dir / "a.nc", "data.train", choice);
  std::vector<float> got(12, NAN);
  files.at(0)->read_with_gaps(2, files[0]->info().shape, got.data());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(t[24 + i]));
}

// netCDF-3 has no unsigned types, and OPeNDAP no signed bytes: the attribute _Unsigned says what the bits
// are.
TEST(Conventions, TheSignOfBitsIsThatOfTheAttribute) {
  const TempDir dir;
  const std::string path = dir / "a.nc";
  for (const auto& [type, marked, low, high] :
       std::vector<std::tuple<nc_type, std::string, int, int>>{{NC_BYTE, "true", 0, 255},
                                                               {NC_SHORT, "True", 0, 65535},
                                                               {NC_UBYTE, "false", -128, 127},
                                                               {NC_UBYTE, "true", 0, 255},
                                                               {NC_SHORT, "false", -32768, 32767}}) {
    SCOPED_TRACE(marked + " of type " + std::to_string(type));
    int nc = -1, dims[3] = {}, rows = -1, axis = -1, v = -1;
    std::vector<int> values(12);
    for (int& x : values) x = static_cast<int>(random_int(low, high - 1));
    values[0] = low, values[1] = high - 1, values[2] = (low + high) / 2 + 1;
    values[static_cast<size_t>(random_int(3, 11))] = high;  // missing
    NC(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc));
    NC(nc_def_dim(nc, "time", 1, &dims[0]));
    NC(nc_def_dim(nc, "lat", 3, &dims[1]));
    NC(nc_def_dim(nc, "lon", 4, &dims[2]));
    NC(nc_def_var(nc, "lat", NC_BYTE, 1, &dims[1], &rows));
    NC(nc_put_att_text(nc, rows, "units", 13, "degrees_north"));
    NC(nc_def_var(nc, "lon", NC_BYTE, 1, &dims[2], &axis));
    NC(nc_put_att_text(nc, axis, "units", 12, "degrees_east"));
    NC(nc_put_att_text(nc, axis, "_Unsigned", 4, "true"));
    NC(nc_def_var(nc, "t", type, 3, dims, &v));
    NC(nc_put_att_text(nc, v, "_Unsigned", marked.size(), marked.c_str()));
    const double scale = 0.5;
    NC(nc_put_att_double(nc, v, "scale_factor", NC_DOUBLE, 1, &scale));
    const signed char columns[] = {0, 100, -56, -56 + 50}, north[] = {20, 0, -20};  // 0, 100, 200 and 250
    NC(nc_put_var_schar(nc, rows, north));
    NC(nc_put_var_schar(nc, axis, columns));
    if (type == NC_SHORT) {
      const std::vector<int16_t> bits(values.begin(), values.end());
      const auto fill = static_cast<int16_t>(high);
      NC(nc_put_att_short(nc, v, "_FillValue", type, 1, &fill));
      NC(nc_put_var_short(nc, v, bits.data()));
    } else {
      std::vector<unsigned char> bits;
      for (const int x : values) bits.push_back(static_cast<unsigned char>(x));
      const auto fill = static_cast<unsigned char>(high);
      if (type == NC_BYTE)
        NC(nc_put_att_schar(nc, v, "_FillValue", type, 1, reinterpret_cast<const signed char*>(&fill)));
      else
        NC(nc_put_att_uchar(nc, v, "_FillValue", type, 1, &fill));
      ASSERT_EQ(nc_put_var(nc, v, bits.data()), NC_NOERR);
    }
    NC(nc_close(nc));
    const auto files = data::open_fields(path, "data.train", {});
    EXPECT_EQ(files.at(0)->info().longitude, (std::vector<double>{0, 100, 200, 250}));
    std::vector<float> got(12, 0);
    files[0]->read_with_gaps(0, files[0]->info().shape, got.data());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(values[i] == high ? std::isnan(got[i]) : got[i] == 0.5f * static_cast<float>(values[i]))
          << values[i] << " was read as " << got[i];
  }
}

TEST(Conventions, WhatDescribesAFieldIsNoneUnlessItIsNamed) {
  const TempDir dir;
  const std::vector<std::string> along = {"time", "lat", "lon"};
  write_plain(
      dir / "a.nc", {{"time", 4}, {"lat", 3}, {"lon", 4}},
      {kPlainRows,
       kPlainColumns,
       {"time", {"time"}, {0, 6, 12, 18}, {{"units", kHoursSince2000}}},
       {"flags", along, plain_values(48)},
       {"height", along, plain_values(48)},
       {"t", along, plain_values(48), {{"ancillary_variables", "flags"}, {"coordinates", "height"}}}});
  const auto files = data::open_fields(dir / "a.nc", "data.train", {});
  EXPECT_EQ(files.at(0)->info().channels, std::vector<std::string>{"t"});
  EXPECT_EQ(files[0]->info().left_out, (std::vector<std::string>{"'flags' is named by others as theirs",
                                                                 "'height' is named by others as theirs"}));
  const auto named = data::open_fields(dir / "a.nc", "data.train", {"t", "height"});
  EXPECT_EQ(named.at(0)->info().channels, (std::vector<std::string>{"t", "height"}));
}

/// Two files of a folder, the second a day later, and changed by `change`
class FolderOfTwo : public testing::Test {
 protected:
  void write_two(const std::function<void(std::vector<PlainVariable>&)>& change) {
    for (const double first : {0.0, 24.0}) {
      std::vector<PlainVariable> all = {kPlainRows,
                                        kPlainColumns,
                                        {"time", {"time"}, {0, 6, 12, 18}, {{"units", kHoursSince2000}}},
                                        {"t", {"time", "lat", "lon"}, plain_values(48), {{"units", "K"}}}};
      for (double& x : all[2].values) x += first;
      if (first > 0) change(all);
      write_plain(dir_ / (first > 0 ? "b.nc" : "a.nc"), {{"time", 4}, {"lat", 3}, {"lon", 4}}, all);
    }
  }
  void refused(const std::vector<std::string>& says) {
    std::vector<std::string> all = says;
    all.emplace_back("b.nc");
    expect_config_error([&] { data::open_fields(dir_.path(), "data.train", {}); }, all);
  }
  int64_t steps() const { return data::open_fields(dir_.path(), "data.train", {}).at(0)->info().steps; }
  const TempDir dir_;
};

TEST_F(FolderOfTwo, OfOneGridAndOneUnitGoTogether) {
  write_two([](std::vector<PlainVariable>&) {});
  EXPECT_EQ(steps(), 8);
  write_two([](std::vector<PlainVariable>& v) {  // the same places, 360 degrees on
    for (double& x : v[1].values) x += 360;
  });
  EXPECT_EQ(steps(), 8);
  write_two([](std::vector<PlainVariable>& v) { v[3].texts.clear(); });
  EXPECT_EQ(steps(), 8);
}

TEST_F(FolderOfTwo, OfTwoGridsOrUnitsAreRefused) {
  write_two([](std::vector<PlainVariable>& v) { v[3].texts["units"] = "degC"; });
  refused({"'t'", "'degC'", "'K'"});
  write_two([](std::vector<PlainVariable>& v) {
    for (double& y : v[0].values) y += 1;
  });
  refused({"latitudes are 51 to 41", "50 to 40"});
  write_two([](std::vector<PlainVariable>& v) { std::reverse(v[1].values.begin(), v[1].values.end()); });
  refused({"longitudes are 15 to 0", "0 to 15"});
}

TEST(Conventions, AStaticFileMayCountLongitudesTheOtherWay) {
  const TempDir dir;
  write_plain_field(dir / "a.nc", "time", {});
  const std::vector<double> oro = plain_values(12);
  PlainVariable west = kPlainColumns, mirrored = kPlainColumns;
  for (double& x : west.values) x -= 360;
  std::reverse(mirrored.values.begin(), mirrored.values.end());
  data::FieldChoice choice;
  choice.static_fields = {"oro"}, choice.static_file = dir / "b.nc";
  const auto beside = [&](const PlainVariable& columns) {
    write_plain(dir / "b.nc", {{"lat", 3}, {"lon", 4}}, {kPlainRows, columns, {"oro", {"lat", "lon"}, oro}});
    return data::open_fields(dir / "a.nc", "data.train", choice);
  };
  const auto files = beside(west);
  std::vector<float> got(24, NAN);
  files.at(0)->read(0, files[0]->info().shape, nullptr, got.data());
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(got[12 + i], static_cast<float>(oro[i]));
  expect_config_error([&] { beside(mirrored); }, {"b.nc", "'oro' lies on another grid"});
}

TEST(Units, OfOneMeaningAreOne) {
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{{"m s**-1", "m s-1"},
                                                                             {"m/s", "m s^-1"},
                                                                             {"W/m2", "W m**-2"},
                                                                             {"kg/kg", "kg kg-1"},
                                                                             {"m**2 / s**2", "m2 s-2"},
                                                                             {"", "K"},
                                                                             {"(0 - 1)", "1"}})
    EXPECT_TRUE(data::same_unit(a, b)) << a << " and " << b;
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{
           {"K", "degC"}, {"Pa", "hPa"}, {"m", "mm"}, {"m s-1", "m s-2"}, {"m/s", "m"}})
    EXPECT_FALSE(data::same_unit(a, b)) << a << " and " << b;
}

}  // namespace
}  // namespace isobar::test
