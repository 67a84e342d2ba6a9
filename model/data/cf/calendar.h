// Days of the CF conventions' calendars, counted from 1970-01-01.
//
//   day_number(Calendar::standard, {1582, 10, 15}) - day_number(Calendar::standard, {1582, 10, 4})   ->   1
#pragma once
#include "model/data/cf/dates.h"

namespace isobar::data {

struct CivilDate {
  int64_t year;
  int month, day;
};

/// Returns none for a day that the calendar does not have. The standard and Julian calendars have no year 0.
std::optional<int64_t> day_number(Calendar c, const CivilDate& date);
CivilDate date_of(Calendar c, int64_t day);

}  // namespace isobar::data
