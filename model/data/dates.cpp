#include "model/data/dates.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>

namespace isobar {

namespace {

using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr double kDay = 86400;

double days_of(const year_month_day& date) {
  return static_cast<double>(sys_days{date}.time_since_epoch().count());
}

std::string lower_case(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

}  // namespace

std::optional<double> seconds_of(double value, const std::string& units, const std::string& calendar) {
  const std::string kind = lower_case(calendar);
  if (!kind.empty() && kind != "standard" && kind != "gregorian" && kind != "proleptic_gregorian")
    return std::nullopt;
  const size_t since = units.find(" since ");
  if (since == std::string::npos || !std::isfinite(value)) return std::nullopt;
  static const std::map<std::string, double> kUnits = {
      {"second", 1},   {"seconds", 1}, {"sec", 1},    {"secs", 1},    {"s", 1},        {"minute", 60},
      {"minutes", 60}, {"min", 60},    {"mins", 60},  {"hour", 3600}, {"hours", 3600}, {"hr", 3600},
      {"hrs", 3600},   {"h", 3600},    {"day", kDay}, {"days", kDay}, {"d", kDay}};
  const auto unit = kUnits.find(lower_case(units.substr(0, since)));
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  float second = 0;
  char between = ' ';
  const int found = std::sscanf(units.c_str() + since + 7, "%d-%d-%d%c%d:%d:%f", &year, &month, &day,
                                &between, &hour, &minute, &second);
  if (found < 3 || unit == kUnits.end()) return std::nullopt;
  const year_month_day date{std::chrono::year{year}, std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok() || std::abs(year) > 9999) return std::nullopt;
  const double seconds = days_of(date) * kDay + hour * 3600.0 + minute * 60.0 + static_cast<double>(second) +
                         value * unit->second;
  constexpr double kFarthest = kDay * 366 * 20'000;  // years
  return std::abs(seconds) < kFarthest ? std::optional(seconds) : std::nullopt;
}

std::string iso_of(double seconds) {
  const std::chrono::sys_seconds at{std::chrono::seconds{std::llround(seconds)}};
  const auto whole = floor<std::chrono::days>(at);
  const year_month_day d{whole};
  const std::chrono::hh_mm_ss clock{at - whole};
  char text[48];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02dZ", static_cast<int>(d.year()),
                static_cast<unsigned>(d.month()), static_cast<unsigned>(d.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()));
  return text;
}

std::string iso_time(double value, const std::string& units, const std::string& calendar) {
  const auto seconds = seconds_of(value, units, calendar);
  return seconds ? iso_of(*seconds) : "";
}

std::optional<Period> date_period(const std::string& text) {
  std::string s = text;
  if (s.ends_with('Z')) s.pop_back();
  int year = 0, month = 1, day = 1, hour = 0, minute = 0, end = 0;
  if (s.size() < 4 || s.find_first_not_of("0123456789") < 4) return std::nullopt;  // four digits of a year
  const auto reads = [&](const char* format, auto... to) {
    end = 0;
    std::sscanf(s.c_str(), format, to..., &end);
    return end > 0 && static_cast<size_t>(end) == s.size();
  };
  double length = 0;
  if (reads("%4d-%2d-%2dT%2d:%2d%n", &year, &month, &day, &hour, &minute)) {
    length = 60;
  } else if (reads("%4d-%2d-%2dT%2d%n", &year, &month, &day, &hour)) {
    minute = 0, length = 3600;
  } else if (reads("%4d-%2d-%2d%n", &year, &month, &day)) {
    hour = minute = 0, length = kDay;
  } else if (reads("%4d-%2d%n", &year, &month)) {
    day = 1, hour = minute = 0;
  } else if (reads("%4d%n", &year)) {
    month = day = 1, hour = minute = 0;
    length = days_of({std::chrono::year{year + 1}, std::chrono::January, std::chrono::day{1}}) * kDay -
             days_of({std::chrono::year{year}, std::chrono::January, std::chrono::day{1}}) * kDay;
  } else {
    return std::nullopt;
  }
  const year_month_day date{std::chrono::year{year}, std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok() || year < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59) return std::nullopt;
  if (length == 0) {
    const std::chrono::year_month_day_last last{date.year(), date.month() / std::chrono::last};
    length = static_cast<double>(static_cast<unsigned>(last.day())) * kDay;
  }
  const double first = days_of(date) * kDay + hour * 3600.0 + minute * 60.0;
  return Period{first, first + length - 1};
}

}  // namespace isobar
