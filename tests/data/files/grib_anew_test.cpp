// Random GRIB files: messages of several fields, bitmaps next to the value 9999, and duplicate fields.
#ifdef ISOBAR_WITH_ECCODES
#include <eccodes.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "model/data/fields/field_file.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

std::vector<double> uniform_values(int64_t n, double low, double high) {
  std::vector<double> x(static_cast<size_t>(n));
  for (double& one : x) one = std::uniform_real_distribution<double>(low, high)(rng());
  return x;
}

struct GribField {
  std::string name;
  int64_t hour = 0;
  std::vector<double> values;
  std::vector<bool> gone;
  std::function<void(codes_handle*)> more = {};
};

codes_handle* grib_of(const GribField& f, int64_t rows, int64_t columns) {
  codes_handle* const h = codes_grib_handle_new_from_samples(nullptr, "regular_ll_pl_grib2");
  const auto whole = [&](const char* key, long x) { EXPECT_EQ(codes_set_long(h, key, x), 0) << key; };
  const auto number = [&](const char* key, double x) { EXPECT_EQ(codes_set_double(h, key, x), 0) << key; };
  whole("Ni", columns), whole("Nj", rows);
  number("latitudeOfFirstGridPointInDegrees", 60), number("latitudeOfLastGridPointInDegrees", 40);
  number("longitudeOfFirstGridPointInDegrees", 0), number("longitudeOfLastGridPointInDegrees", 30);
  number("iDirectionIncrementInDegrees", 30.0 / static_cast<double>(columns - 1));
  number("jDirectionIncrementInDegrees", 20.0 / static_cast<double>(rows - 1));
  whole("dataDate", 20200101), whole("dataTime", f.hour * 100), whole("level", 500);
  size_t size = f.name.size();
  EXPECT_EQ(codes_set_string(h, "shortName", f.name.c_str(), &size), 0);
  whole("bitsPerValue", 24);
  std::vector<double> values = f.values;
  if (!f.gone.empty()) {
    whole("bitmapPresent", 1), number("missingValue", 1e30);
    for (size_t i = 0; i < values.size(); ++i)
      if (f.gone[i]) values[i] = 1e30;
  }
  if (f.more) f.more(h);
  EXPECT_EQ(codes_set_double_array(h, "values", values.data(), values.size()), 0);
  return h;
}

/// Fields that share the sections before the product definition, like NCEP's winds
void append_together(const std::string& path, const std::vector<GribField>& fields, int64_t rows,
                     int64_t columns) {
  std::FILE* const out = std::fopen(path.c_str(), "ab");
  codes_multi_handle* const multi = codes_grib_multi_handle_new(nullptr);
  for (size_t k = 0; k < fields.size(); ++k) {
    codes_handle* const h = grib_of(fields[k], rows, columns);
    EXPECT_EQ(codes_grib_multi_handle_append(h, k > 0 ? 4 : 0, multi), 0);
    codes_handle_delete(h);
  }
  EXPECT_EQ(codes_grib_multi_handle_write(multi, out), 0);
  codes_grib_multi_handle_delete(multi);
  std::fclose(out);
}

TEST(GribAnew, MessagesOfSeveralFieldsWithBitmapsAnd9999) {
  const TempDir dir;
  const int64_t rows = random_int(3, 6), columns = random_int(3, 7), n = rows * columns, steps = 3;
  std::map<std::string, std::vector<std::vector<double>>> written;
  for (int64_t t = 0; t < steps; ++t) {
    std::vector<GribField> fields;
    for (const char* name : {"u", "v", "t"}) {
      GribField f{.name = name, .hour = 6 * t, .values = uniform_values(n, 9990, 10010)};
      f.values[2] = 9999;
      for (int64_t i = 0; i < n; ++i) f.gone.push_back(i != 2 && random_int(0, 4) == 0);
      std::vector<double> want = f.values;
      for (size_t i = 0; i < want.size(); ++i)
        if (f.gone[i]) want[i] = std::nan("");
      written[std::string(name) + "500"].push_back(want);
      fields.push_back(std::move(f));
    }
    append_together(dir / "m.grib2", fields, rows, columns);
  }
  const data::FieldFiles files = data::open_fields(dir / "m.grib2", "data.train", {});
  const data::FieldInfo& info = files.at(0)->info();
  ASSERT_EQ(info.channels, (std::vector<std::string>{"u500", "v500", "t500"}));
  ASSERT_EQ(info.steps, steps);
  std::vector<float> got(static_cast<size_t>(3 * n));
  for (int64_t t = 0; t < steps; ++t) {
    files[0]->read_with_gaps(t, info.shape, got.data());
    for (size_t c = 0; c < 3; ++c)
      for (int64_t i = 0; i < n; ++i) {
        const double want = written[info.channels[c]][static_cast<size_t>(t)][static_cast<size_t>(i)];
        const auto at = static_cast<double>(got[static_cast<int64_t>(c) * n + i]);
        ASSERT_EQ(std::isnan(at), std::isnan(want)) << info.channels[c] << " " << t << " " << i;
        ASSERT_TRUE(std::isnan(want) || std::abs(at - want) < 2e-3) << at << " " << want;
      }
  }
}

TEST(GribAnew, StepsOfSecondsAreNotCutToMinutes) {
  const TempDir dir;
  for (const bool of_reference : {false, true})
    for (int64_t t = 0; t < 4; ++t) {
      GribField f{.name = "t", .values = uniform_values(12, 0, 1)};
      f.more = [&](codes_handle* h) {
        size_t one = 1;
        if (of_reference) {
          EXPECT_EQ(codes_set_long(h, "minute", 15 * t / 60), 0);
          EXPECT_EQ(codes_set_long(h, "second", 15 * t % 60), 0);
        } else if (t > 0) {
          EXPECT_EQ(codes_set_string(h, "stepUnits", "s", &one), 0);
          EXPECT_EQ(codes_set_long(h, "step", 90 * t), 0);
        }
      };
      append_together(dir / (of_reference ? "reference.grib2" : "step.grib2"), {f}, 3, 4);
    }
  for (const auto& [file, seconds] : {std::pair("reference.grib2", 15.0), std::pair("step.grib2", 90.0)}) {
    const data::FieldFiles files = data::open_fields(dir / file, "data.train", {});
    const std::vector<double>& hours = files.at(0)->info().times;
    ASSERT_EQ(hours.size(), 4u) << file;
    for (size_t t = 1; t < hours.size(); ++t)
      EXPECT_NEAR(3600 * (hours[t] - hours[0]), seconds * static_cast<double>(t), 1e-3) << file;
    EXPECT_EQ(data::segments_of(files).size(), 1u) << file;
  }
}

TEST(GribAnew, TwiceOfOneTimeNamesWhatDiffers) {
  const TempDir dir;
  const auto field = [](const char* type) {
    return GribField{.name = "t", .values = uniform_values(12, 0, 1), .more = [type](codes_handle* h) {
                       size_t size = strlen(type);
                       EXPECT_EQ(codes_set_string(h, "stepType", type, &size), 0);
                     }};
  };
  append_together(dir / "s.grib2", {field("instant")}, 3, 4);
  append_together(dir / "s.grib2", {field("max")}, 3, 4);
  expect_config_error([&] { data::inspect(dir / "s.grib2"); },
                      {"'t'", "stepType", "instant", "max", "grib_copy -w stepType="});
}

}  // namespace
}  // namespace isobar::test
#endif
