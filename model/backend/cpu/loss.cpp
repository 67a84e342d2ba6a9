// Relative L2 loss and latitude-weighted RMSE on predictions that lie as patches.
//
// Work is cut into bands: one row of patches of one sample. Each band leaves its sums in a partial of its
// own, and they are added in order, so the result does not depend on the number of threads.
#include <cmath>
#include <numbers>

#include "model/backend/cpu/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

float read(const void* p, DType t, int64_t i) {
  return t == DType::f32 ? static_cast<const float*>(p)[i] : to_float(static_cast<const bf16*>(p)[i]);
}

struct Geometry {
  int64_t down, across, columns;  // patches and columns of a patch
  explicit Geometry(const Patch& s)
      : down(s.height / s.p), across(s.width / s.p), columns(s.p * s.p * s.channels) {}
};

// One line of a band, [channels][width], out of its patches
void unfold_line(const Patch& s, const Geometry& g, const void* pred, int64_t band, int64_t row,
                 float* line) {
  for (int64_t x = 0; x < g.across; ++x) {
    const int64_t from = (band * g.across + x) * g.columns + row * s.p * s.channels;
    for (int64_t col = 0; col < s.p; ++col)
      for (int64_t c = 0; c < s.channels; ++c)
        line[c * s.width + x * s.p + col] = read(pred, s.act, from + col * s.channels + c);
  }
}

void latitude_weights(int64_t height, double* w) {
  double sum = 0;
  for (int64_t j = 0; j < height; ++j) {
    const double latitude =
        height == 1 ? 90.0 : 90.0 - 180.0 * static_cast<double>(j) / static_cast<double>(height - 1);
    w[j] = std::cos(latitude * std::numbers::pi / 180.0);
    sum += w[j];
  }
  for (int64_t j = 0; j < height; ++j) w[j] *= static_cast<double>(height) / sum;
}

int64_t as_floats(int64_t doubles) {
  return 2 * doubles;
}

}  // namespace

void loss_forward(const Patch& s, const void* pred, const float* target, float weight, float* sums,
                  float* loss, float* channel_rmse) {
  const Geometry g(s);
  const int64_t bands = s.batch * g.down,
                per_band = s.channels + 2;  // |pred - target|^2, |target|^2, weighted by channel
  const int64_t line_floats = s.channels * s.width;
  const int64_t doubles = bands * per_band + s.height + per_band + s.channels;
  float* space = scratch(as_floats(doubles) + threads_for(bands * g.across * g.columns) * line_floats);
  double* const partials = reinterpret_cast<double*>(space);
  double* const latitude = partials + bands * per_band;
  double* const sample = latitude + s.height;
  double* const rmse = sample + per_band;
  float* const lines = space + as_floats(doubles);
  latitude_weights(s.height, latitude);
  parallel(bands * g.across * g.columns, [&](int t, int threads) {
    float* line = lines + t * line_floats;
    const Range mine = share(bands, t, threads);
    for (int64_t band = mine.begin; band < mine.end; ++band) {
      const int64_t b = band / g.down, y0 = band % g.down * s.p;
      double* sum = partials + band * per_band;
      std::fill_n(sum, per_band, 0.0);
      for (int64_t row = 0; row < s.p; ++row) {
        unfold_line(s, g, pred, band, row, line);
        for (int64_t c = 0; c < s.channels; ++c) {
          const float* truth = target + ((b * s.channels + c) * s.height + y0 + row) * s.width;
          const float* guess = line + c * s.width;
          float error = 0, size = 0;  // one line in f32, the rest in double
#pragma omp simd reduction(+ : error, size)
          for (int64_t x = 0; x < s.width; ++x) {
            error += (guess[x] - truth[x]) * (guess[x] - truth[x]);
            size += truth[x] * truth[x];
          }
          sum[0] += error;
          sum[1] += size;
          sum[2 + c] += latitude[y0 + row] * error;
        }
      }
    }
  });
  const double pixels = static_cast<double>(s.height) * static_cast<double>(s.width);
  const double share_of_one = static_cast<double>(weight) / static_cast<double>(s.batch);
  double mean_loss = 0;
  std::fill_n(rmse, s.channels, 0.0);
  for (int64_t b = 0; b < s.batch; ++b) {
    std::fill_n(sample, per_band, 0.0);
    for (int64_t band = b * g.down; band < (b + 1) * g.down; ++band)
      for (int64_t i = 0; i < per_band; ++i) sample[i] += partials[band * per_band + i];
    sums[2 * b] = static_cast<float>(sample[0]);
    sums[2 * b + 1] = static_cast<float>(sample[1]);
    mean_loss += std::sqrt(sample[0] / sample[1]) * share_of_one;
    for (int64_t c = 0; c < s.channels; ++c) rmse[c] += std::sqrt(sample[2 + c] / pixels) * share_of_one;
  }
  *loss += static_cast<float>(mean_loss);
  for (int64_t c = 0; c < s.channels; ++c) channel_rmse[c] += static_cast<float>(rmse[c]);
}

// d sqrt(e / t) / dpred = (pred - target) / sqrt(e t); zero where the prediction is exact
void loss_backward(const Patch& s, const void* pred, const float* target, const float* sums, float scale,
                   void* dpred) {
  const Geometry g(s);
  const int64_t bands = s.batch * g.down;
  const int64_t line_floats = s.channels * s.width;
  float* lines = scratch(threads_for(bands * g.across * g.columns) * line_floats);
  parallel(bands * g.across * g.columns, [&](int t, int threads) {
    float* line = lines + t * line_floats;
    const Range mine = share(bands, t, threads);
    for (int64_t band = mine.begin; band < mine.end; ++band) {
      const int64_t b = band / g.down, y0 = band % g.down * s.p;
      const double root = std::sqrt(static_cast<double>(sums[2 * b]) * static_cast<double>(sums[2 * b + 1]));
      const float factor = root > 0 ? static_cast<float>(scale / root) : 0.0f;
      for (int64_t row = 0; row < s.p; ++row) {
        unfold_line(s, g, pred, band, row, line);
        for (int64_t c = 0; c < s.channels; ++c) {
          const float* truth = target + ((b * s.channels + c) * s.height + y0 + row) * s.width;
          float* guess = line + c * s.width;
          for (int64_t x = 0; x < s.width; ++x) guess[x] = factor * (guess[x] - truth[x]);
        }
        for (int64_t x = 0; x < g.across; ++x) {
          const int64_t to = (band * g.across + x) * g.columns + row * s.p * s.channels;
          for (int64_t col = 0; col < s.p; ++col)
            for (int64_t c = 0; c < s.channels; ++c) {
              const float d = line[c * s.width + x * s.p + col];
              const int64_t i = to + col * s.channels + c;
              if (s.act == DType::f32)
                static_cast<float*>(dpred)[i] = d;
              else
                static_cast<bf16*>(dpred)[i] = to_bf16(d);
            }
        }
      }
    }
  });
}

}  // namespace isobar::cpu
