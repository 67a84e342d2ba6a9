// The axis type of a CF coordinate, taken from its attributes (CF conventions, chapter 4) and not from its
// position.
//
//   classify({.name = "t0", .units = "hours since 1900-01-01"})   ->   CfAxis::time
#pragma once
#include <string>
#include <vector>

namespace isobar::data {

enum class CfAxis { time, level, latitude, longitude, other };

struct CfCoordinate {
  std::string name, standard_name, units, axis, positive;
};

CfAxis classify(const CfCoordinate& c);

/// Degrees of latitude or longitude per unit of the coordinate: 1 for degrees, 57.3 for radians. 0 for other
/// coordinates: metres, row numbers, degrees of a rotated pole.
double degrees_of(const CfCoordinate& c);

/// The level as it appears in channel names: 50000 Pa, 500 hPa and 0.5 bar are all "500".
std::string level_name(double value, const std::string& units);

}  // namespace isobar::data
