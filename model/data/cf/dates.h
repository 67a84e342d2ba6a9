// Times in files and in configurations: CF's "hours since 1900-01-01" and ISO 8601, both as seconds since
// 1970.
//
//   seconds_of(6, "hours since 2019-03-01", "standard")   ->   1551420000
//   date_period("2019-03")                                ->   the first and the last second of that month
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace isobar::data {

/// Calendars of the CF conventions, chapter 4.4.1; `standard` is Julian before 1582-10-15. Seconds of the
/// first three are comparable, as they count real days; the others count days of their own since 1970-01-01.
enum class Calendar : uint8_t { standard, proleptic_gregorian, julian, noleap, all_leap, days_360 };

/// Looks up CF's name without regard to case; "" is standard. None for unknown names.
std::optional<Calendar> calendar_of(const std::string& name);
bool of_real_days(Calendar c);

/// Conversion of a time axis' values to seconds.
struct TimeScale {
  std::string unread;  // why they cannot be converted; "": they can
  Calendar calendar = Calendar::standard;
  double origin_s = 0, unit_s = 1;
  std::optional<double> seconds(double value) const;  // none: not finite, or beyond any date
};

/// Accepts CF's units from nanoseconds to weeks, and months and years in calendars where they have one
/// length. A reference date may have a time zone: Z, UTC, -6, +05:30.
TimeScale time_scale(const std::string& units, const std::string& calendar);

std::optional<double> seconds_of(double value, const std::string& units, const std::string& calendar);

/// "2019-03-01T00:00Z", with seconds unless they are 0.
std::string iso_of(double seconds, Calendar calendar = Calendar::proleptic_gregorian);

/// The two in one; "" where there is no such date.
std::string iso_time(double value, const std::string& units, const std::string& calendar);

/// The period that a date names: a year, a month, a day, an hour or a minute. None for text that is not a
/// date.
struct Period {
  double first, last;  // seconds, both included
};
std::optional<Period> date_period(const std::string& text, Calendar calendar = Calendar::proleptic_gregorian);

}  // namespace isobar::data
