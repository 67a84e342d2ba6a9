// Relative L2 loss and latitude-weighted RMSE on predictions that lie as patches.
//
// Work is cut into segments (segments.h). Each leaves its sums in a partial of its own, and they are added in
// order, so the result does not depend on the number of threads.
#include <cmath>
#include <numbers>

#include "model/backend/cpu/kernels.h"
#include "model/backend/cpu/parallel.h"
#include "model/backend/cpu/segments.h"

namespace isobar::cpu {
namespace {

float read(const void* p, DType t, int64_t i) {
  switch (t) {
    case DType::bf16:
      return to_float(static_cast<const bf16*>(p)[i]);
    case DType::f16:
      return to_float(static_cast<const f16*>(p)[i]);
    default:
      return static_cast<const float*>(p)[i];
  }
}

void write(void* p, DType t, int64_t i, float x) {
  switch (t) {
    case DType::bf16:
      static_cast<bf16*>(p)[i] = to_bf16(x);
      return;
    case DType::f16:
      static_cast<f16*>(p)[i] = to_f16(x);
      return;
    default:
      static_cast<float*>(p)[i] = x;
  }
}

// One line of a segment, its stretch of [channels][width], out of its patches
void unfold_line(const Patch& s, const Segment& g, const void* pred, int64_t row, float* line) {
  const int64_t columns = s.p * s.p * s.channels;
  for (int64_t x = g.x0; x < g.x1; ++x) {
    const int64_t from = (g.row + x - g.x0) * columns + row * s.p * s.channels;
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

void loss_sums(const Patch& s, const void* pred, const float* target, float* sums) {
  const Segments segments(s);
  const int64_t count = segments.count(), elements = s.rows * s.p * s.p * s.channels;
  const int64_t per_sample = 2 + s.channels, line_floats = s.channels * s.width;
  const int64_t doubles = count * per_sample + s.height + per_sample;
  float* space = scratch(as_floats(doubles) + threads_for(elements) * line_floats);
  double* const partials = reinterpret_cast<double*>(space);
  double* const latitude = partials + count * per_sample;
  double* const total = latitude + s.height;
  float* const lines = space + as_floats(doubles);
  latitude_weights(s.height, latitude);
  parallel(elements, [&](int t, int threads) {
    float* line = lines + t * line_floats;
    const Range mine = share(count, t, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const Segment g = segments[i];
      double* sum = partials + i * per_sample;
      std::fill_n(sum, per_sample, 0.0);
      for (int64_t row = 0; row < s.p; ++row) {
        const int64_t y = g.band * s.p + row;
        unfold_line(s, g, pred, row, line);
        for (int64_t c = 0; c < s.channels; ++c) {
          const float* truth = target + ((g.sample * s.channels + c) * s.height + y) * s.width;
          const float* guess = line + c * s.width;
          float error = 0, size = 0;  // one line in f32, the rest in double
#pragma omp simd reduction(+ : error, size)
          for (int64_t x = g.x0 * s.p; x < g.x1 * s.p; ++x) {
            error += (guess[x] - truth[x]) * (guess[x] - truth[x]);
            size += truth[x] * truth[x];
          }
          sum[0] += error;
          sum[1] += size;
          sum[2 + c] += latitude[y] * error;
        }
      }
    }
  });
  std::fill_n(sums, s.batch * per_sample, 0.0f);
  for (int64_t i = 0; i < count;) {
    const int64_t sample = segments[i].sample;
    std::fill_n(total, per_sample, 0.0);
    for (; i < count && segments[i].sample == sample; ++i)
      for (int64_t j = 0; j < per_sample; ++j) total[j] += partials[i * per_sample + j];
    for (int64_t j = 0; j < per_sample; ++j) sums[sample * per_sample + j] = static_cast<float>(total[j]);
  }
}

void loss(const Patch& s, const float* sums, float weight, float* loss, float* channel_rmse) {
  const double pixels = static_cast<double>(s.height) * static_cast<double>(s.width);
  const double share_of_one = static_cast<double>(weight) / static_cast<double>(s.batch);
  const int64_t per_sample = 2 + s.channels;
  double mean = 0;
  for (int64_t b = 0; b < s.batch; ++b)
    mean +=
        std::sqrt(static_cast<double>(sums[b * per_sample]) / static_cast<double>(sums[b * per_sample + 1])) *
        share_of_one;
  *loss += static_cast<float>(mean);
  for (int64_t c = 0; c < s.channels; ++c) {
    double rmse = 0;
    for (int64_t b = 0; b < s.batch; ++b)
      rmse += std::sqrt(static_cast<double>(sums[b * per_sample + 2 + c]) / pixels) * share_of_one;
    channel_rmse[c] += static_cast<float>(rmse);
  }
}

// d sqrt(e / t) / dpred = (pred - target) / sqrt(e t); zero where the prediction is exact
void loss_backward(const Patch& s, const void* pred, const float* target, const float* sums, float scale,
                   void* dpred) {
  const Segments segments(s);
  const int64_t columns = s.p * s.p * s.channels, elements = s.rows * columns;
  const int64_t per_sample = 2 + s.channels, line_floats = s.channels * s.width;
  float* lines = scratch(threads_for(elements) * line_floats);
  parallel(elements, [&](int t, int threads) {
    float* line = lines + t * line_floats;
    const Range mine = share(segments.count(), t, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const Segment g = segments[i];
      const float* sum = sums + g.sample * per_sample;
      const double root = std::sqrt(static_cast<double>(sum[0]) * static_cast<double>(sum[1]));
      const float factor = root > 0 ? static_cast<float>(scale / root) : 0.0f;
      for (int64_t row = 0; row < s.p; ++row) {
        unfold_line(s, g, pred, row, line);
        for (int64_t c = 0; c < s.channels; ++c) {
          const float* truth =
              target + ((g.sample * s.channels + c) * s.height + g.band * s.p + row) * s.width;
          float* guess = line + c * s.width;
          for (int64_t x = g.x0 * s.p; x < g.x1 * s.p; ++x) guess[x] = factor * (guess[x] - truth[x]);
        }
        for (int64_t x = g.x0; x < g.x1; ++x) {
          const int64_t to = (g.row + x - g.x0) * columns + row * s.p * s.channels;
          for (int64_t col = 0; col < s.p; ++col)
            for (int64_t c = 0; c < s.channels; ++c)
              write(dpred, s.act, to + col * s.channels + c, line[c * s.width + x * s.p + col]);
        }
      }
    }
  });
}

}  // namespace isobar::cpu
