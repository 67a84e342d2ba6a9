// Times of files and of people: CF's "hours since 1900-01-01" and ISO 8601, both as seconds since 1970.
//
//   seconds_of(6, "hours since 2019-03-01", "standard")   ->   1551420000
//   date_period("2019-03")                                ->   the first and the last second of that month
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace isobar {

/// Those of the CF conventions, chapter 4.4.1. `standard` is Julian before 1582-10-15. The first three count
/// real days, so that their seconds compare; those of the others are of their own days since 1970-01-01.
enum class Calendar : uint8_t { standard, proleptic_gregorian, julian, noleap, all_leap, days_360 };

/// By CF's name, in any case; "" is standard. None for others.
std::optional<Calendar> calendar_of(const std::string& name);
bool of_real_days(Calendar c);

/// How numbers of a time axis become seconds.
struct TimeScale {
  std::string unread;  // why they do not, "" where they do
  Calendar calendar = Calendar::standard;
  double origin_s = 0, unit_s = 1;
  std::optional<double> seconds(double value) const;  // none: not finite, or too far away for a date
};

/// CF's units, from nanoseconds to weeks; months where all have one length (360_day), years where those do.
/// A reference may have a time zone: Z, UTC, -6, +05:30.
TimeScale time_scale(const std::string& units, const std::string& calendar);

std::optional<double> seconds_of(double value, const std::string& units, const std::string& calendar);

/// "2019-03-01T00:00Z", with seconds where they are not 0.
std::string iso_of(double seconds, Calendar calendar = Calendar::proleptic_gregorian);

/// The two in one; "" where there is no such date.
std::string iso_time(double value, const std::string& units, const std::string& calendar);

/// What a date names: a year, a month, a day, an hour or a minute. None for what is no date.
struct Period {
  double first, last;  // seconds, both inside
};
std::optional<Period> date_period(const std::string& text, Calendar calendar = Calendar::proleptic_gregorian);

}  // namespace isobar
