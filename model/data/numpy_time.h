// NumPy's datetime64, as .npz files and Zarr arrays hold it: whole numbers of a unit since 1970.
//
//   const auto hours = numpy_time("h");
//   hours->units          ->   "hours since 1970-01-01 00:00:00"
//   hours->value(431000)  ->   431000, in those
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace isobar {

struct NumpyTime {
  std::string units;  // CF's, of what value() returns, in the proleptic Gregorian calendar
  double scale = 1;
  int64_t months = 0;                  // above 0: the unit is that many months, and values are days
  double value(int64_t stored) const;  // NaN of NaT
};

/// Of "ns", "D", "25s", "M" and so on; none for an unknown unit.
std::optional<NumpyTime> numpy_time(const std::string& unit);

}  // namespace isobar
