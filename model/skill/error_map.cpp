#include "model/skill/error_map.h"

#include <algorithm>
#include <cmath>

namespace isobar::skill {
namespace {

constexpr int64_t kMostRows = 90, kMostColumns = 180;

std::vector<double> middles(int64_t blocks, int64_t points, const std::vector<double>& known) {
  std::vector<double> out;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = b * points / blocks, last = (b + 1) * points / blocks - 1;
    const bool known_last = static_cast<int64_t>(known.size()) > last;
    const auto of = [&](int64_t i) {
      return known_last ? known[static_cast<size_t>(i)] : static_cast<double>(i);
    };
    out.push_back((of(first) + of(last)) / 2);
  }
  return out;
}

}  // namespace

ErrorMap::ErrorMap(std::array<int64_t, 3> shape, const std::vector<double>& latitude,
                   const std::vector<double>& longitude)
    : channels_(shape[0]), all_points_(shape[1] * shape[2]) {
  const auto [channels, height, width] = shape;
  rows_ = std::min(height, kMostRows), columns_ = std::min(width, kMostColumns);
  latitude_ = middles(rows_, height, latitude), longitude_ = middles(columns_, width, longitude);
  squares_.resize(static_cast<size_t>(channels * rows_ * columns_));
  points_.resize(squares_.size());
  for (int64_t y = 0; y < height; ++y)  // the block whose [first, last] holds it
    for (int64_t x = 0; x < width; ++x)
      block_.push_back((((y + 1) * rows_ - 1) / height) * columns_ + ((x + 1) * columns_ - 1) / width);
}

void ErrorMap::add(const std::vector<double>& weights, const float* prediction, const float* truth) {
  for (int64_t c = 0; c < channels_; ++c)
    for (int64_t p = 0; p < all_points_; ++p) {
      const float was = truth[c * all_points_ + p];
      if (weights[static_cast<size_t>(p)] == 0 || std::isnan(was)) continue;
      const double e = static_cast<double>(prediction[c * all_points_ + p]) - static_cast<double>(was);
      const auto at = static_cast<size_t>(c * rows_ * columns_ + block_[static_cast<size_t>(p)]);
      squares_[at] += e * e;
      points_[at] += 1;
    }
}

double ErrorMap::rmse(size_t channel, int64_t block) const {
  const size_t at = channel * static_cast<size_t>(rows_ * columns_) + static_cast<size_t>(block);
  return std::sqrt(squares_[at] / points_[at]);
}

}  // namespace isobar::skill
