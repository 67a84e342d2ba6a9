#include "model/engine/persistence.h"

#include <cmath>
#include <numbers>

namespace isobar {

void add_persistence_rmse(const Images& net, int64_t batch, const float* input, const float* target,
                          const std::vector<int64_t>& persistent, std::vector<double>& sums) {
  const int64_t H = net.img_height, W = net.img_width, C = net.out_channels;
  std::vector<double> weight(H);
  double total = 0;
  for (int64_t h = 0; h < H; ++h) {
    const double latitude = H > 1 ? 90.0 - 180.0 * static_cast<double>(h) / static_cast<double>(H - 1) : 0.0;
    weight[h] = std::cos(latitude * std::numbers::pi / 180.0);
    total += weight[h];
  }
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < C; ++c) {
      double sum = 0;
      for (int64_t h = 0; h < H; ++h) {
        const int64_t before = ((b * net.in_channels + persistent[c]) * H + h) * W,
                      row = ((b * C + c) * H + h) * W;
        double squares = 0;
        for (int64_t w = 0; w < W; ++w) {
          const double d = static_cast<double>(input[before + w]) - static_cast<double>(target[row + w]);
          squares += d * d;
        }
        sum += squares * weight[h] * static_cast<double>(H) / total;
      }
      sums[c] += std::sqrt(sum / static_cast<double>(H * W));
    }
  }
}

}  // namespace isobar
