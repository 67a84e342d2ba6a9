#include "model/data/fields/forcings.h"

#include <chrono>
#include <cmath>
#include <numbers>

namespace isobar::data {

namespace {

constexpr double kTurn = 2 * std::numbers::pi, kDegree = std::numbers::pi / 180, kDaySeconds = 86400;

/// The fraction of the year that has passed, from 0 to 1
double part_of_year(double seconds) {
  using namespace std::chrono;
  const sys_days day = floor<days>(sys_seconds{std::chrono::seconds{std::llround(seconds)}});
  const year y = year_month_day{day}.year();
  const auto begin = [](year of) {
    return static_cast<double>(sys_days{of / January / 1}.time_since_epoch().count()) * kDaySeconds;
  };
  return (seconds - begin(y)) / (begin(y + years{1}) - begin(y));
}

struct Sun {
  double declination, noon_s;  // radians; second of the day of solar noon at longitude 0
};

/// Low-precision formulae of the Astronomical Almanac, accurate to 0.01 degrees between 1950 and 2050.
Sun sun_at(double seconds) {
  const double n = (seconds - 946'728'000) / kDaySeconds;  // days since 1 January 2000, 12:00
  const double mean = (280.460 + 0.9856474 * n) * kDegree, anomaly = (357.528 + 0.9856003 * n) * kDegree;
  const double longitude = mean + (1.915 * std::sin(anomaly) + 0.020 * std::sin(2 * anomaly)) * kDegree;
  const double tilt = (23.439 - 4e-7 * n) * kDegree;
  const double ascension = std::atan2(std::cos(tilt) * std::sin(longitude), std::cos(longitude));
  const double equation = std::remainder(mean - ascension, kTurn);  // equation of time
  return {std::asin(std::sin(tilt) * std::sin(longitude)), kDaySeconds / 2 - equation / kTurn * kDaySeconds};
}

}  // namespace

std::vector<std::string> forcing_channels(const std::vector<std::string>& forcings) {
  std::vector<std::string> names;
  for (const std::string& f : forcings) {
    if (f == "solar_zenith")
      names.push_back("cos_solar_zenith");
    else
      names.insert(names.end(), {f + "_sin", f + "_cos"});
  }
  return names;
}

void compute_forcings(const std::vector<std::string>& forcings, double seconds,
                      const std::vector<double>& latitude, const std::vector<double>& longitude,
                      int64_t height, int64_t width, float* out) {
  const int64_t plane = height * width;
  const double of_day = seconds - std::floor(seconds / kDaySeconds) * kDaySeconds;
  for (const std::string& f : forcings) {
    const bool zenith = f == "solar_zenith";
    const Sun sun = sun_at(seconds);
    for (int64_t i = 0; i < height; ++i)
      for (int64_t j = 0; j < width; ++j) {
        float* at = out + i * width + j;
        if (zenith) {
          const double y = latitude[i] * kDegree;
          const double hour = kTurn * (of_day - sun.noon_s) / kDaySeconds + longitude[j] * kDegree;
          *at = static_cast<float>(std::sin(y) * std::sin(sun.declination) +
                                   std::cos(y) * std::cos(sun.declination) * std::cos(hour));
          continue;
        }
        const double angle = f == "time_of_day" ? kTurn * of_day / kDaySeconds + longitude[j] * kDegree
                                                : kTurn * part_of_year(seconds);
        at[0] = static_cast<float>(std::sin(angle)), at[plane] = static_cast<float>(std::cos(angle));
      }
    out += zenith ? plane : 2 * plane;
  }
}

}  // namespace isobar::data
