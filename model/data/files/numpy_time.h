// NumPy's datetime64 in .npz files and Zarr arrays: an integer count of a unit since 1970.
//
//   const auto hours = numpy_time("h");
//   hours->units          ->   "hours since 1970-01-01 00:00:00"
//   hours->value(431000)  ->   431000 of those units
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace isobar::data {

struct NumpyTime {
  std::string units;  // CF units of value(), in the proleptic Gregorian calendar
  double scale = 1;
  int64_t months = 0;                  // above 0: the unit is that many months, and values are days
  double value(int64_t stored) const;  // NaN of NaT
};

/// Parses a unit: "ns", "D", "25s", "M" …; none for an unknown one.
std::optional<NumpyTime> numpy_time(const std::string& unit);

}  // namespace isobar::data
