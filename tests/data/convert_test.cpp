// One archive in five formats gives a net the same bits; another Zarr library reads ours.
#include <gtest/gtest.h>
#include <zip.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/system/files.h"
#include "model/data/cf/dates.h"
#include "model/data/dataset.h"
#include "model/data/files/npz.h"
#include "model/data/statistics/stats.h"
#include "model/data/written/convert.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

/// Writes an archive's channels like numpy.savez: levels of a variable in one array or in several.
void write_npz(const std::string& from, const std::string& to, bool deflated) {
  const auto files = data::open_fields(from, "", {});
  const data::FieldInfo& info = files[0]->info();
  const int64_t C = info.shape.channels, plane = info.shape.height * info.shape.width;
  std::vector<float> step(static_cast<size_t>(info.shape.size()));
  std::map<std::string, std::string> arrays;  // bytes, by variable
  for (int64_t t = 0; t < info.steps; ++t) {
    files[0]->read(t, info.shape, nullptr, step.data());
    for (int64_t c = 0; c < C; ++c)
      arrays[info.variables[c]].append(reinterpret_cast<const char*>(step.data() + c * plane),
                                       static_cast<size_t>(plane) * sizeof(float));
  }
  const auto bytes = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  std::vector<int64_t> times;  // hours since 2019-03-01, as numpy's datetime64[h]
  for (const double t : info.times) times.push_back(static_cast<int64_t>(t) + 430944);
  std::map<std::string, std::string> members = {
      {"time", data::npy_bytes("<M8[h]", {info.steps}, bytes(times))},
      {"level", data::npy_bytes("<f8", {2}, bytes(std::vector<double>{1000, 850}))},
      {"lat", data::npy_bytes("<f8", {info.shape.height}, bytes(info.latitude))},
      {"lon", data::npy_bytes("<f8", {info.shape.width}, bytes(info.longitude))}};
  for (const auto& [name, data] : arrays)
    members[name] = data::npy_bytes("<f4", {info.steps, 2, info.shape.height, info.shape.width}, data);
  if (!deflated) {
    data::NpzOutput out(to);
    for (const auto& [name, npy] : members) out.add(name, npy);
    return out.finish();
  }
  int code = 0;
  zip_t* zip = zip_open(to.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  ASSERT_NE(zip, nullptr) << code;
  for (const auto& [name, npy] : members)
    ASSERT_GE(
        zip_file_add(zip, (name + ".npy").c_str(), zip_source_buffer(zip, npy.data(), npy.size(), 0), 0), 0);
  ASSERT_EQ(zip_close(zip), 0) << zip_strerror(zip);
}

TEST(Convert, OneArchiveInFiveFormatsGivesTheSameBits) {
  const TempDir dir;
  NetcdfOptions o{.order = "tzyx", .steps = 9, .levels = 2, .rows = 11, .columns = 13, .two = true};
  const std::string source = dir / "packed.nc";
  write_netcdf(source, o, {random_packed(o), random_packed(o)});
  struct Case {
    std::string format, name;
    data::ZarrLayout chunks;
  };
  const std::vector<Case> cases = {
      {"netcdf4", "a.nc", {}},
      {"netcdf3", "b.nc", {}},
      {"hdf5", "c.h5", {}},
      {"zarr2", "d.zarr", {.steps = 4, .rows = 5, .columns = 0, .compressor = "blosc"}},
      {"zarr3", "e.zarr", {.steps = 1, .rows = 0, .columns = 4, .compressor = "zstd"}},
      {"zarr2", "f.zarr", {.steps = 2, .compressor = "none"}},
      {"npz", "g.npz", {}},
      {"npz, deflated", "h.npz", {}}};
  const data::SampleShape shape(data::FieldShape{4, 11, 13});
  const data::Statistics in_physical_units;
  // A Zarr group has no order, so variables are sorted by name.
  const std::vector<std::string> names = {"t1000", "t850", "q1000", "q850"};
  const auto bits = [&](const std::string& path, const data::Statistics* known) {
    DataSpec d;
    d.train = path, d.dt = 2, d.variables = names;
    const auto set = data::open_dataset(d, path, data::Split::train, shape, known);
    std::vector<float> all;
    for (int64_t i = 0; i < 7; ++i) {  // the NERSC layout counts two more, which repeat
      std::vector<float> in(shape.input.size()), out(shape.target.size());
      if (path.ends_with(".h5")) {
        const auto file = data::open_fields(path, "data.train", names);
        file[0]->read(i, shape.input, nullptr, in.data()),
            file[0]->read(i + 2, shape.input, nullptr, out.data());
      } else {
        set->read(i, in.data(), out.data());
      }
      all.insert(all.end(), in.begin(), in.end()), all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  };
  const std::vector<float> want = bits(source, &in_physical_units);
  const data::Statistics of_source = data::compute_statistics(source, names);
  for (const Case& c : cases) {
    if (c.name.ends_with(".npz"))
      write_npz(source, dir / c.name, c.format != "npz");
    else
      data::convert(source, {}, dir / c.name, {.format = c.format, .chunks = c.chunks});
    const std::vector<float> got = bits(dir / c.name, &in_physical_units);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << c.name;
    const data::Statistics s = data::compute_statistics(dir / c.name, names);
    EXPECT_EQ(s.mean, of_source.mean) << c.name;
    EXPECT_EQ(s.std, of_source.std) << c.name;
    if (c.format == "hdf5") continue;  // which has no coordinates or times
    const data::FieldInfo a = data::open_fields(source, "", names)[0]->info(),
                          b = data::open_fields(dir / c.name, "", names)[0]->info();
    EXPECT_EQ(b.latitude, a.latitude) << c.name;
    EXPECT_EQ(b.longitude, a.longitude) << c.name;
    for (const int64_t t : {0, 8})
      EXPECT_EQ(data::iso_time(b.times[t], b.time_units, b.calendar),
                data::iso_time(a.times[t], a.time_units, a.calendar));
  }
}

TEST(Npz, FieldsThatAreTornOrNoneAreToldByName) {
  const TempDir dir;
  NetcdfOptions o{.order = "tzyx", .steps = 9, .levels = 2, .rows = 11, .columns = 13, .two = true};
  write_netcdf(dir / "a.nc", o, {random_packed(o), random_packed(o)});
  write_npz(dir / "a.nc", dir / "a.npz", false);
  expect_config_error([&] { data::open_fields(dir / "a.npz", "data.train", {"u"}); },
                      {"a.npz", "data.variables", "no field 'u'", "q, t"});
  const std::string whole = read_file(dir / "a.npz");
  write_atomically(dir / "torn.npz", whole.substr(0, whole.size() / 2));
  expect_config_error([&] { data::open_fields(dir / "torn.npz", "data.train", {"t"}); }, {"torn.npz", "zip"});
  data::NpzOutput out(dir / "flat.npz");
  const std::vector<float> few(12);
  out.add("t", data::npy_bytes("<f4", {12}, {reinterpret_cast<const char*>(few.data()), 48}));
  out.finish();
  expect_config_error([&] { data::open_fields(dir / "flat.npz", "data.train", {}); },
                      {"flat.npz", "'t' holds 12 numbers along one axis"});
}

TEST(Convert, FilesThatCountFromOtherDaysKeepTheirTimes) {
  const TempDir dir;
  fs::create_directories(dir / "in");
  NetcdfOptions o{.steps = 3, .time_units = "hours since 2019-03-01 00:00:00"};
  write_netcdf(dir / "in/a.nc", o, {random_packed(o)});
  o.time_units = "days since 2019-03-02 06:00 -01:00";
  write_netcdf(dir / "in/b.nc", o, {random_packed(o)});
  data::convert(dir / "in", {}, dir / "out.nc", {.format = "netcdf4"});
  const nlohmann::json j = data::inspect(dir / "out.nc");
  EXPECT_EQ(j["first_time"], "2019-03-01T00:00Z");
  EXPECT_EQ(j["last_time"], "2019-03-04T07:00Z");
  EXPECT_EQ(j["steps"], 6);
  o.time_units = "months since 2019-03-02";
  write_netcdf(dir / "in/b.nc", o, {random_packed(o)});
  expect_config_error([&] { data::convert(dir / "in", {}, dir / "more.nc", {.format = "netcdf4"}); },
                      {"b.nc", "cannot be joined"});
}

TEST(Convert, KeepsWhatIsMissingAndRefusesWhereThatCannotBeSaid) {
  const TempDir dir;
  NetcdfOptions o{.order = "tyx"};
  Packed values = random_packed(o);
  values[30] = -32767;
  write_netcdf(dir / "a.nc", o, {values});
  for (const char* format : {"zarr2", "zarr3", "netcdf4", "netcdf3"}) {
    const std::string out = dir / format;
    data::convert(dir / "a.nc", {}, out + (std::string(format).starts_with("z") ? ".zarr" : ".nc"),
                  {.format = format});
    const auto files =
        data::open_fields(out + (std::string(format).starts_with("z") ? ".zarr" : ".nc"), "", {});
    std::vector<float> step(24);
    files[0]->read_with_gaps(1, files[0]->info().shape, step.data());
    for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(std::isnan(step[i]), i == 6) << format;
  }
  expect_config_error([&] { data::convert(dir / "a.nc", {}, dir / "x.h5", {.format = "hdf5"}); },
                      {"a.nc", "time step 1, channel 't'", "missing", "--mask fill"});
  EXPECT_FALSE(fs::exists(dir / "x.h5"));
  expect_config_error([&] { data::convert(dir / "a.nc", {}, dir / "zarr2.zarr", {}); },
                      {"zarr2.zarr", "there already"});
  data::FieldChoice choice;
  choice.mask = "fill";
  data::convert(dir / "a.nc", choice, dir / "x.h5", {.format = "hdf5"});
  EXPECT_EQ(data::open_fields(dir / "x.h5", "", {})[0]->info().steps, 5);
}

TEST(Convert, ThreadsReadAZarrOfManySteps) {
  const TempDir dir;
  NetcdfOptions o{.order = "tyx", .steps = 40, .rows = 20, .columns = 30};
  write_netcdf(dir / "a.nc", o, {random_packed(o)});
  data::convert(dir / "a.nc", {}, dir / "a.zarr", {.format = "zarr3", .chunks = {.steps = 7}});
  const data::Statistics a = data::compute_statistics(dir / "a.nc");
  for (int i = 0; i < 20; ++i) {  // merged in step order, not in order of completion
    const data::Statistics b = data::compute_statistics(dir / "a.zarr");
    ASSERT_EQ(a.mean, b.mean);
    ASSERT_EQ(a.std, b.std);
  }
}

}  // namespace
}  // namespace isobar::test
