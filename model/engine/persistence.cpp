#include "model/engine/persistence.h"

#include <cmath>
#include <numbers>

#include "model/nets/regional_gnn.h"

namespace isobar {

void add_persistence_rmse(const NetSpec& net, int64_t batch, const float* input, const float* target,
                          const std::vector<int64_t>& persistent, std::vector<double>& sums) {
  const Images& grid = *net.images();
  const int64_t H = grid.img_height, W = grid.img_width, C = grid.out_channels;
  const std::optional<GridBox> region = predicted_region(net);
  const GridBox box = region.value_or(GridBox{0, 0, H, W});
  std::vector<double> weight(box.rows, 1.0);
  double total = 0;
  for (int64_t h = 0; h < box.rows; ++h) {
    const double latitude = H > 1 ? 90.0 - 180.0 * static_cast<double>(h) / static_cast<double>(H - 1) : 0.0;
    if (!region) weight[h] = std::cos(latitude * std::numbers::pi / 180.0);
    total += weight[h];
  }
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < C; ++c) {
      double sum = 0;
      for (int64_t h = 0; h < box.rows; ++h) {
        const int64_t first = (box.row + h) * W + box.column;
        const float* before = input + (b * grid.in_channels + persistent[c]) * H * W + first;
        const float* row = target + (b * C + c) * H * W + first;
        double squares = 0;
        for (int64_t w = 0; w < box.columns; ++w) {
          const double d = static_cast<double>(before[w]) - static_cast<double>(row[w]);
          squares += d * d;
        }
        sum += squares * weight[h] * static_cast<double>(box.rows) / total;
      }
      sums[c] += std::sqrt(sum / static_cast<double>(box.points()));
    }
  }
}

}  // namespace isobar
