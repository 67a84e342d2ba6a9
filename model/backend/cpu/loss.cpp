// Losses and latitude-weighted RMSE on predictions in patches.
//
// Work is cut into segments (segments.h), whose partial sums are added in order, so the result does not
// depend on the number of threads.
#include <cmath>

#include "model/backend/cpu/cpu_backend.h"
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"
#include "model/backend/cpu/rows/segments.h"
#include "model/base/loss_sums.h"

namespace isobar::cpu {
namespace {

// Buffers for a segment's pixels in patch order, and for one line of all channels in image order
struct Band {
  Band(const Patch& s, float* room)
      : pixels(room), planes(room + s.p * s.channels * s.width), truth(planes + s.channels * s.width) {}
  static int64_t floats(const Patch& s) { return ((s.p + 1) * s.channels + 1) * s.width; }
  float* pixels;  // [p][width][channels], from the segment's first patch on
  float* planes;  // [channels][width]
  float* truth;   // [width]: of a target, masked
};

// f(first element in the patches, place in the band, count) for each run that is contiguous in both, in patch
// order, so that memory is read front to back.
template <class F>
void each_stretch(const Patch& s, const Segment& g, const Band& band, const F& f) {
  const int64_t n = s.p * s.channels;
  for (int64_t x = 0; x < g.x1 - g.x0; ++x)
    for (int64_t row = 0; row < s.p; ++row)
      f(((g.row + x) * s.p + row) * n, band.pixels + row * s.width * s.channels + x * n, n);
}

void unfold(const Patch& s, const Segment& g, const void* pred, const Band& band) {
  const auto widen = kernels().cast[of(s.act)][of(DType::f32)];
  each_stretch(s, g, band, [&](int64_t from, float* to, int64_t n) {
    widen(n, static_cast<const char*>(pred) + from * size_of(s.act), to);
  });
}

void fold(const Patch& s, const Segment& g, const Band& band, void* dpred) {
  const auto narrow = kernels().cast[of(DType::f32)][of(s.act)];
  each_stretch(s, g, band, [&](int64_t to, const float* from, int64_t n) {
    narrow(n, from, static_cast<char*>(dpred) + to * size_of(s.act));
  });
}

// Transposes a line of the band, its stretch of [channels][width]
void to_planes(const Patch& s, const Segment& g, int64_t row, const Band& band) {
  kernels().transpose((g.x1 - g.x0) * s.p, s.channels, band.pixels + row * s.width * s.channels, s.channels,
                      band.planes + g.x0 * s.p, s.width);
}
void to_pixels(const Patch& s, const Segment& g, int64_t row, const Band& band) {
  kernels().transpose(s.channels, (g.x1 - g.x0) * s.p, band.planes + g.x0 * s.p, s.width,
                      band.pixels + row * s.width * s.channels, s.channels);
}

using Kind = Loss::Kind;

// A line's penalty in f32: the sum of |e|, e^2 or Huber's
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
    case Kind::cross_entropy:  // has kernels of its own
      break;
    case Kind::relative_l2:
    case Kind::mse:
#pragma omp simd reduction(+ : sum)
      for (int64_t x = 0; x < n; ++x) sum += (guess[x] - truth[x]) * (guess[x] - truth[x]);
      break;
  }
  return sum;
}

bool intensified(const Loss& l, int64_t channel) {
  return l.intense != nullptr && l.intense[channel] != 1.0f;
}

// As penalty(), where elements with a target above the channel's threshold weigh more
float intense_penalty(const Loss& l, int64_t channel, const float* guess, const float* truth, int64_t n) {
  float sum = 0;
  for (int64_t x = 0; x < n; ++x)
    sum += (truth[x] > l.above[channel] ? l.intense[channel] : 1.0f) * penalty(l, guess + x, truth + x, 1);
  return sum;
}

void intensify(const Loss& l, int64_t channel, const float* truth, float* slope, int64_t n) {
  for (int64_t x = 0; x < n; ++x)
    if (truth[x] > l.above[channel]) slope[x] *= l.intense[channel];
}

// Offset of a line in an image of targets or masks
int64_t line_at(const Patch& s, int64_t sample, int64_t channel, int64_t y) {
  return ((sample * s.channels + channel) * s.height + y) * s.width;
}

// Zeroes masked points' errors (guess = truth = 0); returns how many points count
int64_t leave_out(const float* mask, const float* truth, float* guess, float* counting, int64_t n) {
  int64_t count = 0;
  for (int64_t x = 0; x < n; ++x) {
    const bool counts = mask[x] != 0;
    guess[x] = counts ? guess[x] : 0.0f;
    counting[x] = counts ? truth[x] : 0.0f;
    count += counts ? 1 : 0;
  }
  return count;
}

double weight_of_row(const Loss& l, int64_t y) {
  return l.rows == nullptr ? 1.0 : l.rows[y];
}

// Weight of a channel's row in the loss
float weight_of(const Loss& l, int64_t channel, int64_t y) {
  const float w = l.weights == nullptr ? 1.0f : l.weights[channel];
  return l.by_rows ? w * static_cast<float>(weight_of_row(l, y)) : w;
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
    case Kind::cross_entropy:
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
  const int64_t per_sample = loss_sums_size(s.channels, l.masked), band_floats = Band::floats(s);
  const int64_t doubles = count * per_sample + per_sample;
  float* space = scratch(as_floats(doubles) + threads_for(elements) * band_floats);
  double* const partials = reinterpret_cast<double*>(space);
  double* const total = partials + count * per_sample;
  float* const bands = space + as_floats(doubles);
  parallel(elements, [&](int t, int threads) {
    const Band band(s, bands + t * band_floats);
    const Range mine = share(count, t, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const Segment g = segments[i];
      double* sum = partials + i * per_sample;
      std::fill_n(sum, per_sample, 0.0);
      if (g.x0 >= g.x1) continue;
      unfold(s, g, pred, band);
      for (int64_t row = 0; row < s.p; ++row) {
        const int64_t y = g.band * s.p + row;
        to_planes(s, g, row, band);
        for (int64_t c = 0; c < s.channels; ++c) {
          const int64_t line = line_at(s, g.sample, c, y), from = g.x0 * s.p, to = g.x1 * s.p;
          const float* truth = target + line;
          float* guess = band.planes + c * s.width;
          if (l.masked) {
            const auto count = static_cast<double>(
                leave_out(l.mask + line + from, truth + from, guess + from, band.truth + from, to - from));
            truth = band.truth;
            sum[points_at(s.channels)] += l.by_rows ? weight_of_row(l, y) * count : count;
            sum[channel_points_at(s.channels) + c] += weight_of_row(l, y) * count;
          }
          float squares[2];  // one line in f32, the rest in double
          kernels().squares(to - from, guess + from, truth + from, squares);
          const auto [error, size] = squares;
          if (l.kind == Kind::relative_l2)
            sum[kErrorSum] += error;
          else
            sum[kErrorSum] +=
                static_cast<double>(weight_of(l, c, y)) *
                static_cast<double>(intensified(l, c)
                                        ? intense_penalty(l, c, guess + from, truth + from, to - from)
                                        : penalty(l, guess + from, truth + from, to - from));
          sum[kTargetSum] += size;
          sum[kChannelErrors + c] += weight_of_row(l, y) * static_cast<double>(error);
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

namespace {

// Number of points over which a sample's penalties are averaged
double points_of(const Patch& s, const Loss& l, const float* sum) {
  return l.masked ? static_cast<double>(sum[points_at(s.channels)])
                  : static_cast<double>(s.channels * s.height * s.width);
}

}  // namespace

void loss(const Patch& s, const float* sums, float weight, float* loss, float* channel_rmse, const Loss& l,
          int64_t padding) {
  const double pixels = static_cast<double>(s.height) * static_cast<double>(s.width);
  const double share_of_one = static_cast<double>(weight) / static_cast<double>(s.batch);
  const int64_t per_sample = loss_sums_size(s.channels, l.masked);
  const int64_t samples = s.batch - padding;
  double mean = 0;
  for (int64_t b = 0; b < samples; ++b) {
    const float* sum = sums + b * per_sample;
    const auto error = static_cast<double>(sum[kErrorSum]);
    const double size =
        l.kind == Kind::relative_l2 ? static_cast<double>(sum[kTargetSum]) : points_of(s, l, sum);
    if (l.masked && size == 0) continue;
    mean += share_of_one * (l.kind == Kind::relative_l2 ? std::sqrt(error / size) : error / size);
  }
  *loss += static_cast<float>(mean);
  for (int64_t c = 0; c < s.channels; ++c) {
    double rmse = 0;
    for (int64_t b = 0; b < samples; ++b) {
      const float* sum = sums + b * per_sample;
      const double points = l.masked ? static_cast<double>(sum[channel_points_at(s.channels) + c]) : pixels;
      if (points > 0) rmse += std::sqrt(static_cast<double>(sum[kChannelErrors + c]) / points) * share_of_one;
    }
    channel_rmse[c] += static_cast<float>(rmse);
  }
}

// relative L2: d sqrt(e / t) / dpred = (pred - target) / sqrt(e t); zero if the prediction is exact
void loss_backward(const Patch& s, const void* pred, const float* target, const float* sums, float scale,
                   void* dpred, const Loss& l) {
  const Segments segments(s);
  const int64_t elements = s.rows * s.p * s.p * s.channels;
  const int64_t per_sample = loss_sums_size(s.channels, l.masked), band_floats = Band::floats(s);
  float* bands = scratch(threads_for(elements) * band_floats);
  parallel(elements, [&](int t, int threads) {
    const Band band(s, bands + t * band_floats);
    const Range mine = share(segments.count(), t, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const Segment g = segments[i];
      const float* sum = sums + g.sample * per_sample;
      const double root =
          l.kind == Kind::relative_l2
              ? std::sqrt(static_cast<double>(sum[kErrorSum]) * static_cast<double>(sum[kTargetSum]))
              : points_of(s, l, sum);
      const float factor = root > 0 ? static_cast<float>(scale / root) : 0.0f;
      if (g.x0 >= g.x1) continue;
      unfold(s, g, pred, band);
      for (int64_t row = 0; row < s.p; ++row) {
        to_planes(s, g, row, band);
        const int64_t y = g.band * s.p + row;
        for (int64_t c = 0; c < s.channels; ++c) {
          const int64_t line = line_at(s, g.sample, c, y), from = g.x0 * s.p, n = g.x1 * s.p - from;
          const float* truth = target + line + from;
          float* guess = band.planes + c * s.width + from;
          slopes(l, factor * weight_of(l, c, y), truth, guess, n);
          if (intensified(l, c)) intensify(l, c, truth, guess, n);
          if (l.masked)
            for (int64_t x = 0; x < n; ++x) guess[x] = l.mask[line + from + x] != 0 ? guess[x] : 0.0f;
        }
        to_pixels(s, g, row, band);
      }
      fold(s, g, band, dpred);
    }
  });
}

// ---- ops ----

namespace {

template <plan::OpKind K>
Loss loss_of(const CpuCall<K>& c, bool masked, const float* mask) {
  const plan::LossWeights& w = c.a.weighed();
  const auto or_null = [](const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); };
  return {c.a.kind,
          c.a.delta,
          or_null(w.channel),
          or_null(w.above),
          or_null(w.intense),
          c.backend.row_weights(c.a).data(),
          w.latitude,
          masked,
          mask};
}

void run_loss_sums(const CpuCall<plan::OpKind::loss_sums>& c) {
  loss_sums(patch_of(c.a.image, c.type_in("pred")), c.in("pred"), c.in("target"), c.out("sums"),
            loss_of(c, static_cast<bool>(c.in("mask")), c.in("mask")));
}

void run_loss(const CpuCall<plan::OpKind::loss>& c) {  // metrics: loss, then one RMSE a channel
  const bool masked = c.view_in("sums").count > c.a.image.batch * loss_sums_size(c.a.image.channels, false);
  float* const metrics = c.out("metrics");
  loss(patch_of(c.a.image, c.type_in("sums")), c.in("sums"), c.a.weight, metrics, metrics + 1,
       loss_of(c, masked, nullptr), padding_of(c.in("scalars")));
}

void run_loss_backward(const CpuCall<plan::OpKind::loss_backward>& c) {
  const float* const scalars = c.in("scalars");
  loss_backward(patch_of(c.a.image, c.type_in("pred")), c.in("pred"), c.in("target"), c.in("sums"),
                scalars ? c.a.weight * scalars[plan::kLossScale] : c.a.weight, c.out("dpred"),
                loss_of(c, static_cast<bool>(c.in("mask")), c.in("mask")));
}

}  // namespace

CpuRows loss_ops() {
  static constexpr CpuRow kRows[] = {row<run_loss_sums>, row<run_loss>, row<run_loss_backward>};
  return kRows;
}

}  // namespace isobar::cpu
