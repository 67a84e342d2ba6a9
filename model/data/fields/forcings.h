// Net inputs that follow from time and place alone, without a file (data.forcings).
//
//   time_of_day    local solar time, as sine and cosine: time_of_day_sin, time_of_day_cos
//   day_of_year    as sine and cosine: day_of_year_sin, day_of_year_cos
//   solar_zenith   cosine of the sun's angle from the zenith, below 0 at night: cos_solar_zenith
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar::data {

std::vector<std::string> forcing_channels(const std::vector<std::string>& forcings);

/// Forcings at `seconds` since 1970 (UTC) for the first `height` latitudes and `width` longitudes: out
/// [channels, height, width].
void compute_forcings(const std::vector<std::string>& forcings, double seconds,
                      const std::vector<double>& latitude, const std::vector<double>& longitude,
                      int64_t height, int64_t width, float* out);

}  // namespace isobar::data
