// Times of CF's calendars, compared with cftime's (tests/fixtures/make_times.py), and invalid dates.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>

#include "model/data/cf/calendar.h"
#include "model/data/cf/dates.h"
#include "model/data/files/npy.h"
#include "tests/data/files.h"
#include "tests/paths.h"

namespace isobar::test {
namespace {

constexpr data::Calendar kAll[] = {data::Calendar::standard, data::Calendar::proleptic_gregorian,
                                   data::Calendar::julian,   data::Calendar::noleap,
                                   data::Calendar::all_leap, data::Calendar::days_360};

TEST(Dates, AreThoseOfCftime) {
  std::ifstream in(source_dir() + "/tests/fixtures/times_by_cftime.txt");
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    std::istringstream parts(line);
    std::string number, units, calendar, want;
    std::getline(parts, number, '|'), std::getline(parts, units, '|'), std::getline(parts, calendar, '|');
    std::getline(parts, want);
    EXPECT_EQ(data::iso_time(std::stod(number), units, calendar), want) << line;
    EXPECT_EQ(data::time_scale(units, calendar).unread.empty(), !want.empty()) << line;
  }
  EXPECT_GT(lines, 500);
}

TEST(Dates, EveryDayHasOneNumber) {
  for (const data::Calendar c : kAll) {
    SCOPED_TRACE(static_cast<int>(c));
    for (int64_t day = -900'000; day <= 900'000; ++day) {
      const data::CivilDate d = data::date_of(c, day);
      ASSERT_EQ(data::day_number(c, d), day);
      if (c != data::Calendar::proleptic_gregorian) continue;
      const std::chrono::year_month_day known{std::chrono::sys_days{std::chrono::days{day}}};
      ASSERT_TRUE(d.year == static_cast<int>(known.year()) &&
                  d.month == static_cast<int>(static_cast<unsigned>(known.month())) &&
                  d.day == static_cast<int>(static_cast<unsigned>(known.day())))
          << day;
    }
  }
}

TEST(Dates, WhatIsNotUnderstoodIsSaid) {
  const std::pair<const char*, const char*> cases[] = {{"fortnights since 2000-01-01", "fortnights"},
                                                       {"months since 2000-01-01", "no fixed length"},
                                                       {"years since 2000-01-01", "no fixed length"},
                                                       {"hours since then", "no date"},
                                                       {"hours since 2000-01-01 00:00 EST", "no date"},
                                                       {"days since 1582-10-10", "no day"},
                                                       {"days since 0000-01-01", "no day"},
                                                       {"days since 2000-02-30", "no day"},
                                                       {"day as %Y%m%d.%f", "name no date"},
                                                       {"", "no units"}};
  for (const auto& [units, why] : cases) {
    EXPECT_NE(data::time_scale(units, "standard").unread.find(why), std::string::npos)
        << units << ": " << data::time_scale(units, "standard").unread;
    EXPECT_FALSE(data::seconds_of(1, units, "standard").has_value()) << units;
  }
  EXPECT_NE(data::time_scale("days since 2000-01-01", "lunar").unread.find("'lunar'"), std::string::npos);
  EXPECT_EQ(data::iso_time(2, "months since 2000-01-30", "360_day"), "2000-03-30T00:00Z");
  EXPECT_EQ(data::iso_time(2, "years since 2000-02-29", "366_day"), "2002-02-29T00:00Z");
}

TEST(Dates, ZonesAsUdunitsHasThem) {
  for (const char* zone : {"-6", " -6", "-06", "-6:00", " -06:00", "-0600"})
    EXPECT_EQ(data::iso_time(0, std::string("hours since 2000-01-01 00:00:00") + zone, ""),
              "2000-01-01T06:00Z")
        << zone;
  for (const char* zone : {"", "Z", "z", " UTC", " GMT", "+0", "+00:00"})
    EXPECT_EQ(data::iso_time(0, std::string("hours since 2000-01-01T00:00") + zone, ""), "2000-01-01T00:00Z")
        << zone;
  EXPECT_EQ(data::iso_time(1, "hours since 2000-1-1 6", ""), "2000-01-01T07:00Z");
}

TEST(Dates, PeriodsAreOfTheFilesCalendar) {
  const auto days = [](const char* text, data::Calendar c) {
    const auto p = data::date_period(text, c);
    return p ? std::lround((p->last + 1 - p->first) / 86400) : -1;
  };
  EXPECT_EQ(days("2000-02", data::Calendar::proleptic_gregorian), 29);
  EXPECT_EQ(days("2000-02", data::Calendar::noleap), 28);
  EXPECT_EQ(days("2000-02", data::Calendar::days_360), 30);
  EXPECT_EQ(days("2000", data::Calendar::days_360), 360);
  EXPECT_EQ(days("2000-02-30", data::Calendar::days_360), 1);
  EXPECT_EQ(days("2000-02-30", data::Calendar::standard), -1);
  EXPECT_EQ(days("2000-12", data::Calendar::all_leap), 31);
}

TEST(Dates, OfNumpy) {
  const auto at = [](const char* unit, int64_t n) {
    const auto t = data::numpy_time(unit);
    return t ? data::iso_time(t->value(n), t->units, "proleptic_gregorian") : "none";
  };
  EXPECT_EQ(at("ns", 951782400000000000), "2000-02-29T00:00Z");
  EXPECT_EQ(at("us", 951782400000000), "2000-02-29T00:00Z");
  EXPECT_EQ(at("10s", 95178240), "2000-02-29T00:00Z");
  EXPECT_EQ(at("D", 11016), "2000-02-29T00:00Z");
  EXPECT_EQ(at("W", 1), "1970-01-08T00:00Z");
  EXPECT_EQ(at("M", 361), "2000-02-01T00:00Z");
  EXPECT_EQ(at("M", -1), "1969-12-01T00:00Z");
  EXPECT_EQ(at("Y", -1), "1969-01-01T00:00Z");
  EXPECT_EQ(at("fs2", 1), "none");
  EXPECT_EQ(at("", 1), "none");
  EXPECT_TRUE(std::isnan(data::numpy_time("ns")->value(std::numeric_limits<int64_t>::min())));
}

}  // namespace
}  // namespace isobar::test
