// Area weights of the rows of a latitude-longitude grid.
//
//   row_weights(721, {})                       // a global grid from pole to pole
//   row_weights(64, {60.0, 59.75, …})          // a region's, by the latitudes of its file
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace isobar {

/// Degrees of the j-th of `height` rows that go from +90 to -90.
inline double pole_to_pole(int64_t height, int64_t j) {
  return height == 1 ? 0.0 : 90.0 - 180.0 * static_cast<double>(j) / static_cast<double>(height - 1);
}

/// w_j = H cos(lat_j) / sum_i cos(lat_i) (WeatherBench 2, Rasp 2024, eq. 1), with a mean of 1. `latitudes`:
/// degrees from the north; the last rows of more than `height` are cut off, and fewer are unknown, which
/// means +90 to -90.
inline std::vector<double> row_weights(int64_t height, const std::vector<double>& latitudes) {
  std::vector<double> w(static_cast<size_t>(height));
  double sum = 0;
  for (int64_t j = 0; j < height; ++j) {
    const bool known = static_cast<int64_t>(latitudes.size()) >= height;
    const auto at = static_cast<size_t>(j);
    w[at] = std::cos((known ? latitudes[at] : pole_to_pole(height, j)) * std::numbers::pi / 180.0);
    sum += w[at];
  }
  for (double& x : w) x *= static_cast<double>(height) / sum;
  return w;
}

}  // namespace isobar
