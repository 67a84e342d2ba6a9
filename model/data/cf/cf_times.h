// The time axis of an archive: its unpacked values, and why they cannot be read as times.
//
//   const CfTimes t = times_of(file, dimension);          // throws ArrayError: a value is missing
//   t.unread                                              // "": t.values are times in t.units
#pragma once
#include <string>
#include <vector>

#include "model/data/cf/cf_file.h"

namespace isobar::data {

struct CfTimes {
  std::string name;            // of the variable; "": there is none
  std::vector<double> values;  // {}: absent, or no numbers
  std::string units, calendar;
  std::string unread;  // why the distance between steps is unknown; "": known, or no axis
};

CfTimes times_of(const CfFile& file, int64_t dimension);

/// The index of the first time that is not later than the one before it; -1 when all increase.
int64_t first_not_later(const std::vector<double>& times);

}  // namespace isobar::data
