// Which axis a CF coordinate is, told by its attributes (CF conventions, chapter 4), not by its place.
//
//   classify({.name = "t0", .units = "hours since 1900-01-01"})   ->   CfAxis::time
#pragma once
#include <string>
#include <vector>

namespace isobar {

enum class CfAxis { time, level, latitude, longitude, other };

struct CfCoordinate {
  std::string name, standard_name, units, axis, positive;
};

CfAxis classify(const CfCoordinate& c);

/// How many degrees of latitude or longitude one of its numbers is: 1, or 57.3 of radians. 0: its numbers are
/// none, but metres, numbers of rows, or the degrees of a rotated pole.
double degrees_of(const CfCoordinate& c);

/// A level as channel names write it: 50000 Pa and 500 hPa are both "500".
std::string level_name(double value, const std::string& units);

}  // namespace isobar
