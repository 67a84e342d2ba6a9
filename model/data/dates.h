// Times of files and of people: CF's "hours since 1900-01-01" and ISO 8601, both as seconds since 1970.
//
//   seconds_of(6, "hours since 2019-03-01", "standard")   ->   1551420000
//   date_period("2019-03")                                ->   the first and the last second of that month
#pragma once
#include <optional>
#include <string>

namespace isobar {

/// Of the standard calendars; none for others, and for units that are no time's.
std::optional<double> seconds_of(double value, const std::string& units, const std::string& calendar);

/// "2019-03-01T00:00Z"; "" for what no four-digit year holds.
std::string iso_of(double seconds);

/// The two in one; "" where it cannot be told.
std::string iso_time(double value, const std::string& units, const std::string& calendar);

/// What a date names: a year, a month, a day, an hour or a minute. None for what is no date.
struct Period {
  double first, last;  // seconds, both inside
};
std::optional<Period> date_period(const std::string& text);

}  // namespace isobar
