#include "model/engine/validation/persistence.h"

#include <cmath>

#include "model/base/latitude.h"
#include "model/nets/graph/regional_gnn.h"

namespace isobar::engine {
namespace {

// Weights of a region's rows
std::vector<double> weights_of(const RunSpec& spec, const GridBox& region) {
  if (!spec.train.latitude_weights) return std::vector<double>(static_cast<size_t>(region.rows), 1.0);
  const RegionalGnnSpec& n = spec.net.regional_gnn();
  std::vector<double> latitudes;
  for (int64_t r = 0; r < region.rows; ++r)
    latitudes.push_back(n.north - n.spacing * static_cast<double>(region.row + r));
  return row_weights(region.rows, latitudes);
}

}  // namespace

void add_persistence_rmse(const RunSpec& spec, const std::vector<double>& latitudes, int64_t batch,
                          const float* input, const float* target, const float* mask,
                          const std::vector<int64_t>& persistent, std::vector<double>& sums) {
  const Images& grid = *spec.net.images();
  const int64_t H = grid.img_height, W = grid.img_width, C = grid.out_channels;
  const std::optional<GridBox> region = nets::predicted_region(spec.net);
  const GridBox box = region.value_or(GridBox{0, 0, H, W});
  const std::vector<double> weight = region ? weights_of(spec, box) : row_weights(box.rows, latitudes);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < C; ++c) {
      double sum = 0, points = 0;
      for (int64_t h = 0; h < box.rows; ++h) {
        const int64_t first = (box.row + h) * W + box.column;
        const float* before = input + (b * grid.in_channels + persistent[c]) * H * W + first;
        const float* row = target + (b * C + c) * H * W + first;
        const float* counts = mask ? mask + (b * C + c) * H * W + first : nullptr;
        double squares = 0, there = 0;
        for (int64_t w = 0; w < box.columns; ++w) {
          if (counts && counts[w] == 0) continue;
          const double d = static_cast<double>(before[w]) - static_cast<double>(row[w]);
          squares += d * d, ++there;
        }
        sum += squares * weight[h];
        points += there * weight[h];
      }
      if (!mask) points = static_cast<double>(box.points());
      if (points > 0) sums[c] += std::sqrt(sum / points);
    }
  }
}

}  // namespace isobar::engine
