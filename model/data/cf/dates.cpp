#include "model/data/cf/dates.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <map>

#include "model/data/cf/calendar.h"

namespace isobar::data {

namespace {

constexpr double kDay = 86400;

std::string lower_case(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t"), last = s.find_last_not_of(" \t");
  return first == std::string::npos ? "" : s.substr(first, last + 1 - first);
}

/// Seconds in a unit; 0 for a unit without fixed length.
double unit_of(const std::string& name, Calendar c) {
  static const std::map<std::string, double> kUnits = {
      {"nanosecond", 1e-9},  {"nanosec", 1e-9},   {"ns", 1e-9},
      {"microsecond", 1e-6}, {"microsec", 1e-6},  {"us", 1e-6},
      {"\xc2\xb5s", 1e-6},   {"\xce\xbcs", 1e-6}, {"millisecond", 1e-3},
      {"millisec", 1e-3},    {"msec", 1e-3},      {"ms", 1e-3},
      {"second", 1},         {"sec", 1},          {"s", 1},
      {"minute", 60},        {"min", 60},         {"hour", 3600},
      {"hr", 3600},          {"h", 3600},         {"day", kDay},
      {"d", kDay},           {"week", 7 * kDay}};
  auto found = kUnits.find(name);
  if (found == kUnits.end() && name.ends_with('s')) found = kUnits.find(name.substr(0, name.size() - 1));
  if (found != kUnits.end()) return found->second;
  if (c == Calendar::days_360 && (name == "month" || name == "months")) return 30 * kDay;
  if (c == Calendar::noleap && (name == "common_year" || name == "common_years")) return 365 * kDay;
  if (name != "year" && name != "years") return 0;
  return c == Calendar::days_360   ? 360 * kDay
         : c == Calendar::noleap   ? 365 * kDay
         : c == Calendar::all_leap ? 366 * kDay
                                   : 0;
}

/// Parses the whole text: "2000-1-1", "1-1-1 00:00:0.0", "2000-01-01T06:00:00Z", "2000-01-01 00:00 -6:00".
class ReferenceDate {
 public:
  explicit ReferenceDate(const std::string& text) : at_(text.c_str()) {}

  bool read() {
    const int64_t sign = take('-') ? -1 : 1;
    if (!number(date.year)) return false;
    date.year *= sign, date.month = date.day = 1;
    if (take('-') && (!number(date.month) || (take('-') && !number(date.day)))) return false;
    if (*at_ == 'T' || *at_ == 't' || *at_ == ' ') {
      ++at_;
      skip();
      if (std::isdigit(static_cast<unsigned char>(*at_)) && !clock()) return false;
    }
    skip();
    return zone() && *at_ == '\0';
  }

  CivilDate date{};
  double seconds = 0;  // of the day, in UTC

 private:
  bool take(char c) {
    if (*at_ != c) return false;
    ++at_;
    return true;
  }
  void skip() {
    while (*at_ == ' ') ++at_;
  }
  template <class T>
  bool number(T& to) {
    const char* const first = at_;
    for (to = 0; std::isdigit(static_cast<unsigned char>(*at_)) && at_ - first < 6; ++at_)
      to = to * 10 + (*at_ - '0');
    return at_ > first && !std::isdigit(static_cast<unsigned char>(*at_));
  }
  bool clock() {
    int hour = 0, minute = 0, second = 0;
    if (!number(hour) || (take(':') && !number(minute))) return false;
    if (take(':') && !number(second)) return false;
    double part = 0, unit = 0.1;
    if (take('.'))
      for (; std::isdigit(static_cast<unsigned char>(*at_)); ++at_, unit /= 10) part += unit * (*at_ - '0');
    seconds = hour * 3600.0 + minute * 60.0 + second + part;
    return hour <= 24 && minute < 60 && second <= 60;
  }
  bool zone() {
    for (const char* name : {"UTC", "GMT", "Z", "z", "utc", "gmt"})
      if (const std::string word = at_; word == name) {
        at_ += word.size();
        return true;
      }
    const double sign = take('-') ? -1 : take('+') ? 1 : 0;
    if (sign == 0) return true;
    const char* const first = at_;
    int hours = 0, minutes = 0;
    if (!number(hours)) return false;
    if (at_ - first > 2)
      minutes = hours % 100, hours /= 100;  // +0530
    else if (take(':') && !number(minutes))
      return false;
    seconds -= sign * (hours * 3600.0 + minutes * 60.0);
    return hours <= 15 && minutes < 60;
  }
  const char* at_;
};

}  // namespace

std::optional<Calendar> calendar_of(const std::string& name) {
  static const std::map<std::string, Calendar> kCalendars = {
      {"", Calendar::standard},          {"standard", Calendar::standard},
      {"gregorian", Calendar::standard}, {"proleptic_gregorian", Calendar::proleptic_gregorian},
      {"julian", Calendar::julian},      {"noleap", Calendar::noleap},
      {"365_day", Calendar::noleap},     {"all_leap", Calendar::all_leap},
      {"366_day", Calendar::all_leap},   {"360_day", Calendar::days_360}};
  const auto found = kCalendars.find(lower_case(trimmed(name)));
  return found == kCalendars.end() ? std::nullopt : std::optional(found->second);
}

bool of_real_days(Calendar c) {
  return c == Calendar::standard || c == Calendar::proleptic_gregorian || c == Calendar::julian;
}

TimeScale time_scale(const std::string& units, const std::string& calendar) {
  TimeScale s;
  const auto unread = [&](const std::string& why) {
    s.unread = why;
    return s;
  };
  const std::optional<Calendar> c = calendar_of(calendar);
  if (!c) return unread("its calendar '" + calendar + "' is none of CF's");
  s.calendar = *c;
  const size_t since = lower_case(units).find(" since ");
  if (since == std::string::npos)
    return unread(units.empty() ? "it has no units" : "its units '" + units + "' name no date to count from");
  const std::string unit = trimmed(units.substr(0, since)), reference = trimmed(units.substr(since + 7));
  s.unit_s = unit_of(lower_case(unit), *c);
  if (s.unit_s == 0)
    return unread("its unit '" + unit + "' is of no fixed length in the calendar '" +
                  (calendar.empty() ? "standard" : calendar) + "'");
  ReferenceDate from(reference);
  if (!from.read()) return unread("'" + reference + "' in its units is no date that is known");
  const std::optional<int64_t> day = day_number(*c, from.date);
  if (!day)
    return unread("the calendar '" + (calendar.empty() ? std::string("standard") : calendar) +
                  "' has no day '" + reference + "'");
  s.origin_s = static_cast<double>(*day) * kDay + from.seconds;
  return s;
}

std::optional<double> TimeScale::seconds(double value) const {
  if (!unread.empty() || !std::isfinite(value)) return std::nullopt;
  const double at = origin_s + value * unit_s;
  constexpr double kFarthest = kDay * 366 * 20'000;  // years
  return std::abs(at) < kFarthest ? std::optional(at) : std::nullopt;
}

std::optional<double> seconds_of(double value, const std::string& units, const std::string& calendar) {
  return time_scale(units, calendar).seconds(value);
}

std::string iso_of(double seconds, Calendar calendar) {
  const int64_t at = std::llround(seconds), all = 86400;
  const int64_t day = at / all - (at % all < 0), of_day = at - day * all;
  const CivilDate d = date_of(calendar, day);
  char text[64];
  const int n =
      std::snprintf(text, sizeof text, "%04lld-%02d-%02dT%02d:%02d", static_cast<long long>(d.year), d.month,
                    d.day, static_cast<int>(of_day / 3600), static_cast<int>(of_day / 60 % 60));
  if (of_day % 60 == 0) return std::string(text, static_cast<size_t>(n)) + "Z";
  std::snprintf(text + n, sizeof text - static_cast<size_t>(n), ":%02dZ", static_cast<int>(of_day % 60));
  return text;
}

std::string iso_time(double value, const std::string& units, const std::string& calendar) {
  const TimeScale scale = time_scale(units, calendar);
  const auto seconds = scale.seconds(value);
  return seconds ? iso_of(*seconds, scale.calendar) : "";
}

std::optional<Period> date_period(const std::string& text, Calendar calendar) {
  std::string s = text;
  if (s.ends_with('Z')) s.pop_back();
  int year = 0, month = 1, day = 1, hour = 0, minute = 0, end = 0;
  if (s.size() < 4 || s.find_first_not_of("0123456789") < 4) return std::nullopt;  // four digits of a year
  const auto reads = [&](const char* format, auto... to) {
    end = 0;
    std::sscanf(s.c_str(), format, to..., &end);
    return end > 0 && static_cast<size_t>(end) == s.size();
  };
  int64_t months = 0;
  double length = 0;
  if (reads("%4d-%2d-%2dT%2d:%2d%n", &year, &month, &day, &hour, &minute)) {
    length = 60;
  } else if (reads("%4d-%2d-%2dT%2d%n", &year, &month, &day, &hour)) {
    minute = 0, length = 3600;
  } else if (reads("%4d-%2d-%2d%n", &year, &month, &day)) {
    hour = minute = 0, length = kDay;
  } else if (reads("%4d-%2d%n", &year, &month)) {
    day = 1, hour = minute = 0, months = 1;
  } else if (reads("%4d%n", &year)) {
    month = day = 1, hour = minute = 0, months = 12;
  } else {
    return std::nullopt;
  }
  const auto begin = day_number(calendar, {year, month, day});
  if (!begin || year < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59) return std::nullopt;
  if (months > 0) {
    const bool turns = month + months > 12;
    const auto next = day_number(calendar, {turns ? year + 1 : year, turns ? 1 : month + 1, 1});
    length = static_cast<double>(*next - *begin) * kDay;
  }
  const double first = static_cast<double>(*begin) * kDay + hour * 3600.0 + minute * 60.0;
  return Period{first, first + length - 1};
}

}  // namespace isobar::data
