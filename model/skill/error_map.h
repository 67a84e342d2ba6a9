// A net's RMSE by location, in blocks of the grid so that a page can show it.
//
//   ErrorMap map({C, H, W}, latitudes, longitudes);
//   map.add(weights, prediction, truth);      // of each sample
//   map.rmse(channel, block);                 // NaN: nothing there counted
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace isobar::skill {

class ErrorMap {
 public:
  ErrorMap() = default;
  /// `shape`: channels, rows, columns. Coordinates in degrees; {}: not known.
  ErrorMap(std::array<int64_t, 3> shape, const std::vector<double>& latitude,
           const std::vector<double>& longitude);

  /// [C,H,W] each, in physical units; `weights` [H,W]. Points without weight, or missing, do not count.
  void add(const std::vector<double>& weights, const float* prediction, const float* truth);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  /// Coordinates of blocks' centres: degrees, or rows and columns of the grid
  const std::vector<double>& latitude() const { return latitude_; }
  const std::vector<double>& longitude() const { return longitude_; }
  double rmse(size_t channel, int64_t block) const;

 private:
  int64_t channels_ = 0, all_points_ = 0;
  int64_t rows_ = 0, columns_ = 0;
  std::vector<double> latitude_, longitude_;
  std::vector<double> squares_, points_;  // [C][rows][columns]
  std::vector<int64_t> block_;            // of each point
};

}  // namespace isobar::skill
