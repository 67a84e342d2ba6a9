#include "model/data/cf/cf_axes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace isobar::data {

namespace {

bool among(const std::string& s, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return s == n; });
}

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

/// hPa in a unit of pressure, in lower case; 0: no such unit
double hpa_of(const std::string& unit) {
  if (among(unit, {"pa", "pascal", "pascals"})) return 0.01;
  if (among(unit, {"hpa", "hectopascal", "hectopascals", "mb", "mbar", "mbars", "millibar", "millibars"}))
    return 1;
  if (among(unit, {"kpa", "kilopascal", "kilopascals"})) return 10;
  if (among(unit, {"bar", "bars"})) return 1000;
  return among(unit, {"atm", "atmosphere", "atmospheres"}) ? 1013.25 : 0;
}

}  // namespace

double degrees_of(const CfCoordinate& c) {
  const std::string u = lower(c.units), n = lower(c.name);
  if (c.standard_name.starts_with("grid_") || c.standard_name.starts_with("projection_")) return 0;
  if (u.starts_with("degree") && u != "degree" && u != "degrees") return 1;  // degrees_north, degreesE
  const bool named = c.standard_name == "latitude" || c.standard_name == "longitude" ||
                     (c.standard_name.empty() && among(n, {"lat", "latitude", "lon", "longitude"}));
  if (!named) return 0;
  if (among(u, {"radian", "radians", "rad"})) return 180 / std::numbers::pi;
  return among(u, {"", "degree", "degrees", "deg"}) ? 1 : 0;
}

CfAxis classify(const CfCoordinate& c) {
  const std::string &s = c.standard_name, u = lower(c.units), n = lower(c.name), a = lower(c.axis);
  // A forecast lead time also has time units, yet is no time axis of states.
  if (s == "forecast_period" || s == "forecast_reference_time" || s == "realization") return CfAxis::other;
  if (s == "time" || a == "t" || u.find(" since ") != std::string::npos) return CfAxis::time;
  if (s == "latitude" ||
      among(u, {"degrees_north", "degree_north", "degree_n", "degrees_n", "degreen", "degreesn"}))
    return CfAxis::latitude;
  if (s == "longitude" ||
      among(u, {"degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese"}))
    return CfAxis::longitude;
  if (a == "y" || among(s, {"grid_latitude", "projection_y_coordinate"})) return CfAxis::latitude;
  if (a == "x" || among(s, {"grid_longitude", "projection_x_coordinate"})) return CfAxis::longitude;
  const std::string p = lower(c.positive);
  if (a == "z" || p == "up" || p == "down" ||
      among(s,
            {"air_pressure", "height", "altitude", "depth", "geopotential_height", "model_level_number"}) ||
      s.starts_with("atmosphere_") || hpa_of(u) > 0 || among(u, {"level", "sigma_level"}))
    return CfAxis::level;
  // CF asks for attributes; files without any are common enough to try the usual names last.
  if (among(n, {"time", "valid_time"})) return CfAxis::time;
  if (among(n, {"lat", "latitude", "y"})) return CfAxis::latitude;
  if (among(n, {"lon", "longitude", "x"})) return CfAxis::longitude;
  if (among(n, {"level", "lev", "plev", "pressure_level", "isobaricinhpa", "model_level"}))
    return CfAxis::level;
  return CfAxis::other;
}

std::string level_name(double value, const std::string& units) {
  if (const double hpa = hpa_of(lower(units)); hpa > 0) value *= hpa;
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace isobar::data
