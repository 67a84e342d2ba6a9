#include "model/data/cf_axes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace isobar {

namespace {

bool among(const std::string& s, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return s == n; });
}

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

}  // namespace

CfAxis classify(const CfCoordinate& c) {
  const std::string &s = c.standard_name, u = lower(c.units), n = lower(c.name);
  // A forecast lead time also has time units, yet is no time axis of states.
  if (s == "forecast_period" || s == "forecast_reference_time" || s == "realization") return CfAxis::other;
  if (s == "time" || c.axis == "T" || u.find(" since ") != std::string::npos) return CfAxis::time;
  if (s == "latitude" ||
      among(u, {"degrees_north", "degree_north", "degree_n", "degrees_n", "degreen", "degreesn"}))
    return CfAxis::latitude;
  if (s == "longitude" ||
      among(u, {"degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese"}))
    return CfAxis::longitude;
  if (c.axis == "Y" || among(s, {"grid_latitude", "projection_y_coordinate"})) return CfAxis::latitude;
  if (c.axis == "X" || among(s, {"grid_longitude", "projection_x_coordinate"})) return CfAxis::longitude;
  const std::string p = lower(c.positive);
  if (c.axis == "Z" || p == "up" || p == "down" ||
      among(s,
            {"air_pressure", "height", "altitude", "depth", "geopotential_height", "model_level_number"}) ||
      s.starts_with("atmosphere_") ||
      among(u, {"pa", "hpa", "mbar", "millibar", "millibars", "mb", "bar", "atm", "level", "sigma_level"}))
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
  if (lower(units) == "pa") value /= 100;
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string iso_time(double value, const std::string& units, const std::string& calendar) {
  if (!among(lower(calendar), {"", "standard", "gregorian", "proleptic_gregorian"})) return "";
  const size_t since = units.find(" since ");
  if (since == std::string::npos || !std::isfinite(value)) return "";
  const std::string unit = lower(units.substr(0, since));
  double seconds = 0;
  if (among(unit, {"second", "seconds", "sec", "secs", "s"})) seconds = 1;
  if (among(unit, {"minute", "minutes", "min", "mins"})) seconds = 60;
  if (among(unit, {"hour", "hours", "hr", "hrs", "h"})) seconds = 3600;
  if (among(unit, {"day", "days", "d"})) seconds = 86400;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  float second = 0;
  char between = ' ';
  const int found = std::sscanf(units.c_str() + since + 7, "%d-%d-%d%c%d:%d:%f", &year, &month, &day,
                                &between, &hour, &minute, &second);
  if (found < 3 || seconds == 0) return "";
  using namespace std::chrono;
  const year_month_day date{std::chrono::year{year}, std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok()) return "";
  const double base = static_cast<double>(sys_days{date}.time_since_epoch().count()) * 86400 + hour * 3600.0 +
                      minute * 60.0 + static_cast<double>(second);
  constexpr double kFarthest = 86400.0 * 366 * 20'000;  // years
  if (std::abs(year) > 9999 || !(std::abs(base + value * seconds) < kFarthest)) return "";
  const auto total = static_cast<int64_t>(std::llround(base + value * seconds));
  const sys_seconds at{std::chrono::seconds{total}};
  const auto whole = floor<days>(at);
  const year_month_day d{whole};
  const hh_mm_ss clock{at - whole};
  char text[48];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02dZ", static_cast<int>(d.year()),
                static_cast<unsigned>(d.month()), static_cast<unsigned>(d.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()));
  return text;
}

}  // namespace isobar
