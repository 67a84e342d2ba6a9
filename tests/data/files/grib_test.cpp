// GRIB through ecCodes: files written by ecCodes are read back by name, level, place and time; unreadable
// ones give one error.
#ifdef ISOBAR_WITH_ECCODES
#include <eccodes.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "model/data/fields/field_file.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

constexpr int64_t kLatitudes = 5, kLongitudes = 8;

struct Message {
  std::string name = "t", levels = "isobaricInhPa";
  int64_t level = 500, hour = 0;  // since 2020-02-28 18:00
  std::vector<double> values = {};
  std::function<void(codes_handle*)> more = {};
};

std::vector<double> random_values(std::mt19937_64& random, double around = 280) {
  std::vector<double> out(kLatitudes * kLongitudes);
  for (double& x : out) x = around + std::normal_distribution<double>(0, 10)(random);
  return out;
}

void append(const std::string& path, const Message& m, const char* sample = "regular_ll_pl_grib2") {
  codes_handle* const h = codes_grib_handle_new_from_samples(nullptr, sample);
  ASSERT_NE(h, nullptr) << sample;
  const auto whole = [&](const char* key, int64_t value) {
    ASSERT_EQ(codes_set_long(h, key, value), 0) << key;
  };
  const auto number = [&](const char* key, double value) {
    ASSERT_EQ(codes_set_double(h, key, value), 0) << key;
  };
  const auto text = [&](const char* key, std::string value) {
    size_t size = value.size();
    ASSERT_EQ(codes_set_string(h, key, value.c_str(), &size), 0) << key;
  };
  if (!m.values.empty()) {
    whole("Ni", kLongitudes), whole("Nj", kLatitudes);
    number("latitudeOfFirstGridPointInDegrees", 60), number("latitudeOfLastGridPointInDegrees", 58);
    number("longitudeOfFirstGridPointInDegrees", 358), number("longitudeOfLastGridPointInDegrees", 1.5);
    number("iDirectionIncrementInDegrees", 0.5), number("jDirectionIncrementInDegrees", 0.5);
  }
  const int64_t hours = 18 + m.hour, days = hours / 24;
  whole("dataDate", days == 0 ? 20200228 : days == 1 ? 20200229 : 20200300 + days - 1);
  whole("dataTime", hours % 24 * 100);
  text("shortName", m.name);
  if (m.levels == "isobaricInhPa") text("typeOfLevel", m.levels), whole("level", m.level);
  whole("bitsPerValue", 24);
  if (m.more) m.more(h);
  if (!m.values.empty()) {
    ASSERT_EQ(codes_set_double_array(h, "values", m.values.data(), m.values.size()), 0);
  }
  ASSERT_EQ(codes_write_message(h, path.c_str(), "a"), 0);
  codes_handle_delete(h);
}

class Grib : public ::testing::Test {
 protected:
  std::unique_ptr<data::FieldFile> open(const data::NamedFields& names = {}) const {
    return data::open_cf_fields(file, "data.train", names, nullptr);
  }
  std::vector<float> read(const data::FieldFile& f, int64_t t) const {
    std::vector<float> out(static_cast<size_t>(f.info().shape.size()));
    f.read(t, f.info().shape, nullptr, out.data());
    return out;
  }
  const TempDir dir;
  const std::string file = dir / "fields.grib";
  std::mt19937_64& random = rng();
};

// Messages are in random order; 24 bits of a range of 100 are 6e-6.
TEST_F(Grib, FieldsComeByNameLevelPlaceAndTime) {
  std::map<std::pair<std::string, int64_t>, std::vector<double>> truth;  // by channel and time
  std::vector<std::pair<Message, const char*>> messages;
  for (int64_t t = 0; t < 12; ++t) {
    for (const int64_t level : {850, 500, 1000})
      for (const char* name : {"z", "t"})
        messages.push_back(
            {{name, "isobaricInhPa", level, 6 * t, random_values(random)}, "regular_ll_pl_grib2"});
    for (const char* name : {"2t", "10u"})
      messages.push_back({{name, "", 0, 6 * t, random_values(random)}, "regular_ll_sfc_grib2"});
  }
  std::shuffle(messages.begin(), messages.end(), random);
  for (const auto& [m, sample] : messages) {
    append(file, m, sample);
    const std::string channel = m.name == "2t"    ? "t2m"
                                : m.name == "10u" ? "u10"
                                                  : m.name + std::to_string(m.level);
    truth[{channel, m.hour / 6}] = m.values;
  }
  const auto fields = open();
  const data::FieldInfo& info = fields->info();
  EXPECT_EQ(info.format, "GRIB 2");
  EXPECT_EQ(info.steps, 12);
  ASSERT_EQ(info.shape.channels, 8);
  EXPECT_EQ(info.shape.height, kLatitudes);
  EXPECT_EQ(info.shape.width, kLongitudes);
  EXPECT_EQ(info.latitude, (std::vector<double>{60, 59.5, 59, 58.5, 58}));
  for (int64_t x = 0; x < kLongitudes; ++x)
    EXPECT_NEAR(info.longitude[x], 358 + 0.5 * static_cast<double>(x), 1e-9);
  for (int64_t t = 0; t < 12; ++t)  // 2020-02-28 18:00 is 439,698 hours after 1970
    EXPECT_EQ(info.times[t], 439698 + 6.0 * static_cast<double>(t));
  for (int64_t t = 0; t < 12; ++t) {
    const std::vector<float> got = read(*fields, t);
    for (int64_t c = 0; c < 8; ++c) {
      const std::vector<double>& wanted = truth.at({info.channels[c], t});
      for (int64_t i = 0; i < kLatitudes * kLongitudes; ++i)
        ASSERT_NEAR(got[c * kLatitudes * kLongitudes + i], wanted[i], 5e-5)
            << info.channels[c] << " at " << t;
    }
  }
  const auto one = open({{"t850"}});
  EXPECT_EQ(one->info().channels, std::vector<std::string>{"t850"});
  EXPECT_EQ(one->info().units, std::vector<std::string>{"K"});
}

// ecCodes names levels below 1 hPa by another type.
TEST_F(Grib, LevelsInPascalsAreLevelsOfTheSameVariable) {
  const auto in_pascals = [](codes_handle* h) {
    size_t n = 12;
    codes_set_string(h, "typeOfLevel", "isobaricInPa", &n);
    codes_set_long(h, "level", 50);
  };
  for (const int64_t t : {0, 1}) {
    append(file, {"t", "isobaricInhPa", 500, 6 * t, random_values(random)}, "regular_ll_pl_grib2");
    append(file, {.name = "t", .hour = 6 * t, .values = random_values(random), .more = in_pascals},
           "regular_ll_pl_grib2");
  }
  const auto fields = open();
  EXPECT_EQ(fields->info().channels, (std::vector<std::string>{"t0.5", "t500"}));
  EXPECT_EQ(fields->info().steps, 2);
}

TEST_F(Grib, SouthFirstAndGribOneToo) {
  const std::vector<double> values = random_values(random);
  for (const char* sample : {"regular_ll_pl_grib2", "regular_ll_pl_grib1"}) {
    fs::remove(file);
    append(file,
           {.values = values,
            .more =
                [](codes_handle* h) {
                  codes_set_double(h, "latitudeOfFirstGridPointInDegrees", 58);
                  codes_set_double(h, "latitudeOfLastGridPointInDegrees", 60);
                  codes_set_long(h, "jScansPositively", 1);
                }},
           sample);
    const auto fields = open();
    EXPECT_EQ(fields->info().latitude.front(), 60);
    const std::vector<float> got = read(*fields, 0);
    for (int64_t y = 0; y < kLatitudes; ++y)
      for (int64_t x = 0; x < kLongitudes; ++x)
        ASSERT_NEAR(got[y * kLongitudes + x], values[(kLatitudes - 1 - y) * kLongitudes + x], 5e-5) << sample;
  }
}

TEST_F(Grib, ManyThreadsReadTheSame) {
  for (int64_t t = 0; t < 24; ++t)
    for (const int64_t level : {500, 850})
      append(file, {.level = level, .hour = t, .values = random_values(random)});
  const auto fields = open();
  std::vector<std::vector<float>> alone;
  for (int64_t t = 0; t < 24; ++t) alone.push_back(read(*fields, t));
  std::vector<int> wrong(8, 0);
  std::vector<std::thread> threads;
  for (int k = 0; k < 8; ++k)
    threads.emplace_back([&, k] {
      for (int64_t i = 0; i < 240; ++i) {
        const int64_t t = (i * 7 + k * 5) % 24;
        wrong[k] += read(*fields, t) != alone[t];
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

TEST_F(Grib, WhatTheBitmapLeavesOutIsMissing) {
  std::vector<double> values = random_values(random);
  values[11] = 9999;
  append(file, {.values = values, .more = [](codes_handle* h) {
                  codes_set_long(h, "bitmapPresent", 1);
                  codes_set_double(h, "missingValue", 9999);
                }});
  const auto fields = open();
  std::vector<float> out(kLatitudes * kLongitudes);
  fields->read_with_gaps(0, fields->info().shape, out.data());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i == 11) << i;
  expect_config_error([&] { read(*fields, 0); }, {file, "row 1, column 3"});
}

TEST_F(Grib, WhatCannotBeReadIsOneError) {
  const auto refused = [&](const std::vector<std::string>& words) {
    expect_config_error([&] { read(*open(), 0); }, words);
    fs::remove(file);
  };
  std::ofstream(file) << "GRIB....";
  refused({file, "data.train"});
  append(file, {}, "reduced_gg_pl_48_grib2");
  refused({file, "reduced_gg"});
  append(file, {}, "sh_pl_grib2");
  refused({file, "sh"});
  append(file, {.values = random_values(random)});
  append(file, {.values = random_values(random)});
  refused({file, "'t' twice", "2020-02-28T18:00Z, level 500", "the same keys"});
  for (const int64_t t : {0, 1}) append(file, {.hour = t, .values = random_values(random)});
  append(file, {.level = 850, .values = random_values(random)});
  refused({file, "3 fields for 2 times of 2 levels"});
  for (const int64_t t : {0, 1}) append(file, {.hour = t, .values = random_values(random)});
  append(file, {.name = "z", .values = random_values(random)});
  refused({file, "'t' and 'z' have different times"});
  for (const int64_t t : {0, 1}) append(file, {.hour = t, .values = random_values(random)});
  fs::resize_file(file, fs::file_size(file) - 20);
  refused({file, "data.train"});
  for (const int64_t t : {0, 1}) append(file, {.hour = t, .values = random_values(random)});
  const auto opened = open();
  fs::resize_file(file, fs::file_size(file) - 20);
  expect_config_error([&] { read(*opened, 1); }, {file, "torn", "time step 1"});
}

}  // namespace
}  // namespace isobar::test
#endif
