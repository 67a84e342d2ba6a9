// The time axis of an archive: its numbers, unpacked, and whether they are times that are understood.
//
//   const CfTimes t = times_of(file, dimension);          // throws ArrayError: a value is missing
//   t.unread                                              // "" : seconds_of(t.values[i], t.units,
//   t.calendar)
#pragma once
#include <string>
#include <vector>

#include "model/data/cf_file.h"

namespace isobar {

struct CfTimes {
  std::string name;            // of the variable; "": there is none
  std::vector<double> values;  // {}: absent, or no numbers
  std::string units, calendar;
  std::string unread;  // why the distance between steps is unknown; "": known, or no axis
};

CfTimes times_of(const CfFile& file, int64_t dimension);

/// Among times, that of the first that does not come after the one before it; -1: they increase.
int64_t first_not_later(const std::vector<double>& times);

}  // namespace isobar
