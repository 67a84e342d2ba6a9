#include "model/data/cf/calendar.h"

namespace isobar::data {

namespace {

constexpr int64_t kFirstGregorian = -141427;  // 1582-10-15

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

bool leap(Calendar c, int64_t year) {  // with a year 0, the one before year 1
  switch (c) {
    case Calendar::noleap:
    case Calendar::days_360:
      return false;
    case Calendar::all_leap:
      return true;
    case Calendar::julian:
      return year % 4 == 0;
    default:
      return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  }
}

int days_before_month(Calendar c, int64_t year, int month) {
  if (c == Calendar::days_360) return 30 * (month - 1);
  constexpr int kBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
  return kBefore[month - 1] + (month > 2 && leap(c, year) ? 1 : 0);
}

/// Days from the first of year 0 to the first of `year`
int64_t days_before_year(Calendar c, int64_t year) {
  const int64_t past = year - 1;  // years 1 to `past`
  switch (c) {
    case Calendar::noleap:
      return 365 * year;
    case Calendar::all_leap:
      return 366 * year;
    case Calendar::days_360:
      return 360 * year;
    case Calendar::julian:
      return 365 * year + floor_div(past, 4) + 1;
    default:
      return 365 * year + floor_div(past, 4) - floor_div(past, 100) + floor_div(past, 400) + 1;
  }
}

/// Days from the first of year 0 to 1970-01-01, which is 1969-12-19 in the Julian calendar
int64_t epoch(Calendar c) {
  if (c == Calendar::julian) return days_before_year(c, 1969) + days_before_month(c, 1969, 12) + 18;
  return days_before_year(c, 1970);
}

bool counts_no_zero(Calendar c) {
  return c == Calendar::standard || c == Calendar::julian;
}

/// The day number in a calendar that has one rule for all years
int64_t number_of(Calendar c, const CivilDate& d) {
  return days_before_year(c, d.year) + days_before_month(c, d.year, d.month) + d.day - 1 - epoch(c);
}

CivilDate civil_of(Calendar c, int64_t day) {
  const int64_t at = day + epoch(c);
  const int64_t shortest = c == Calendar::days_360 ? 360 : 365;
  int64_t year = floor_div(at, shortest);  // or up to that
  int64_t step = year < 0 ? -year : year;
  for (step = step / 300 + 1; step > 0; step /= 2) {
    while (days_before_year(c, year) > at) year -= step;
    while (days_before_year(c, year + step) <= at) year += step;
  }
  int64_t rest = at - days_before_year(c, year);
  int month = 12;
  while (days_before_month(c, year, month) > rest) --month;
  return {year, month, static_cast<int>(rest - days_before_month(c, year, month)) + 1};
}

int days_in_month(Calendar c, int64_t year, int month) {
  if (c == Calendar::days_360) return 30;
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays[month - 1] + (month == 2 && leap(c, year) ? 1 : 0);
}

}  // namespace

std::optional<int64_t> day_number(Calendar c, const CivilDate& of) {
  CivilDate d = of;
  if (counts_no_zero(c)) {
    if (d.year == 0) return std::nullopt;
    if (d.year < 0) ++d.year;
  }
  if (c == Calendar::standard) {
    for (const Calendar one : {Calendar::proleptic_gregorian, Calendar::julian}) {
      if (d.month < 1 || d.month > 12 || d.day < 1 || d.day > days_in_month(one, d.year, d.month)) continue;
      const int64_t n = number_of(one, d);
      if ((n >= kFirstGregorian) == (one == Calendar::proleptic_gregorian)) return n;
    }
    return std::nullopt;
  }
  if (d.month < 1 || d.month > 12 || d.day < 1 || d.day > days_in_month(c, d.year, d.month))
    return std::nullopt;
  return number_of(c, d);
}

CivilDate date_of(Calendar c, int64_t day) {
  Calendar one = c;
  if (c == Calendar::standard)
    one = day >= kFirstGregorian ? Calendar::proleptic_gregorian : Calendar::julian;
  CivilDate d = civil_of(one, day);
  if (counts_no_zero(c) && d.year <= 0) --d.year;
  return d;
}

}  // namespace isobar::data
