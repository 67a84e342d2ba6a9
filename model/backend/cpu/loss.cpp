// Losses and latitude-weighted RMSE on predictions that lie as patches.
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
        height == 1 ? 0.0 : 90.0 - 180.0 * static_cast<double>(j) / static_cast<double>(height - 1);
    w[j] = std::cos(latitude * std::numbers::pi / 180.0);
    sum += w[j];
  }
  for (int64_t j = 0; j < height; ++j) w[j] *= static_cast<double>(height) / sum;
}

using Kind = Loss::Kind;

// Of a line, in f32: the sum of |e|, e^2 or Huber's
float penalty(const Loss& l, const float* guess, const float* truth, int64_t n) {
  float sum = 0;
  switch (l.kind) {
    case Kind::mae:
#pragma omp simd reduction(+ : sum)
      for (int64_t x = 0; x < n; ++x) sum += std::abs(guess[x] - truth[x]);
      break;
    case Kind::huber:
#pragma omp simd reduction(+ : sum)
      for (int64_t x = 0; x < n; ++x) {
        const float e = std::abs(guess[x] - truth[x]);
        sum += e <= l.delta ? 0.5f * e * e : l.delta * (e - 0.5f * l.delta);
      }
      break;
    case Kind::projection:
#pragma omp simd reduction(+ : sum)
      for (int64_t x = 0; x < n; ++x) sum += guess[x] * truth[x];
      break;
    case Kind::relative_l2:
    case Kind::mse:
#pragma omp simd reduction(+ : sum)
      for (int64_t x = 0; x < n; ++x) sum += (guess[x] - truth[x]) * (guess[x] - truth[x]);
      break;
  }
  return sum;
}

float weight_of(const Loss& l, int64_t channel) {
  return l.weights == nullptr ? 1.0f : l.weights[channel];
}

// guess = factor * d penalty / d guess
void slopes(const Loss& l, float factor, const float* truth, float* guess, int64_t n) {
  switch (l.kind) {
    case Kind::mae:
      for (int64_t x = 0; x < n; ++x) {
        const float e = guess[x] - truth[x];
        guess[x] = e > 0 ? factor : e < 0 ? -factor : e * 0.0f;  // NaN stays NaN
      }
      return;
    case Kind::mse:
      for (int64_t x = 0; x < n; ++x) guess[x] = factor * 2 * (guess[x] - truth[x]);
      return;
    case Kind::huber:
      for (int64_t x = 0; x < n; ++x) guess[x] = factor * std::clamp(guess[x] - truth[x], -l.delta, l.delta);
      return;
    case Kind::projection:
      for (int64_t x = 0; x < n; ++x) guess[x] = factor * truth[x];
      return;
    case Kind::relative_l2:  // the root is in the factor
      for (int64_t x = 0; x < n; ++x) guess[x] = factor * (guess[x] - truth[x]);
      return;
  }
}

int64_t as_floats(int64_t doubles) {
  return 2 * doubles;
}

}  // namespace

void loss_sums(const Patch& s, const void* pred, const float* target, float* sums, const Loss& l) {
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
          const int64_t from = g.x0 * s.p, to = g.x1 * s.p;
          float error = 0, size = 0;  // one line in f32, the rest in double
#pragma omp simd reduction(+ : error, size)
          for (int64_t x = from; x < to; ++x) {
            error += (guess[x] - truth[x]) * (guess[x] - truth[x]);
            size += truth[x] * truth[x];
          }
          if (l.kind == Kind::relative_l2)
            sum[0] += error;
          else
            sum[0] += static_cast<double>(weight_of(l, c)) *
                      static_cast<double>(penalty(l, guess + from, truth + from, to - from));
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

void loss(const Patch& s, const float* sums, float weight, float* loss, float* channel_rmse, const Loss& l,
          int64_t padding) {
  const double pixels = static_cast<double>(s.height) * static_cast<double>(s.width);
  const double share_of_one = static_cast<double>(weight) / static_cast<double>(s.batch);
  const int64_t per_sample = 2 + s.channels;
  const int64_t samples = s.batch - padding;
  double mean = 0;
  for (int64_t b = 0; b < samples; ++b) {
    const double error = sums[b * per_sample], size = sums[b * per_sample + 1];
    mean += share_of_one * (l.kind == Kind::relative_l2 ? std::sqrt(error / size)
                                                        : error / (pixels * static_cast<double>(s.channels)));
  }
  *loss += static_cast<float>(mean);
  for (int64_t c = 0; c < s.channels; ++c) {
    double rmse = 0;
    for (int64_t b = 0; b < samples; ++b)
      rmse += std::sqrt(static_cast<double>(sums[b * per_sample + 2 + c]) / pixels) * share_of_one;
    channel_rmse[c] += static_cast<float>(rmse);
  }
}

// relative L2: d sqrt(e / t) / dpred = (pred - target) / sqrt(e t); zero where the prediction is exact
void loss_backward(const Patch& s, const void* pred, const float* target, const float* sums, float scale,
                   void* dpred, const Loss& l) {
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
      const double root = l.kind == Kind::relative_l2
                              ? std::sqrt(static_cast<double>(sum[0]) * static_cast<double>(sum[1]))
                              : static_cast<double>(s.channels * s.height * s.width);
      const float factor = root > 0 ? static_cast<float>(scale / root) : 0.0f;
      for (int64_t row = 0; row < s.p; ++row) {
        unfold_line(s, g, pred, row, line);
        for (int64_t c = 0; c < s.channels; ++c) {
          const float* truth =
              target + ((g.sample * s.channels + c) * s.height + g.band * s.p + row) * s.width;
          float* guess = line + c * s.width;
          const int64_t from = g.x0 * s.p;
          slopes(l, factor * weight_of(l, c), truth + from, guess + from, g.x1 * s.p - from);
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
