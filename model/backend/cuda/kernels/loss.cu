// Losses and latitude-weighted RMSE of predictions in patches, [rows, p*p*C] with columns (row, col, c),
// against images [B,C,H,W].
//
// Shared memory transposes a patch at a time, stored by column and read by channel, so that both sides are
// read in runs. Patches too large for it are read directly.
#include <cmath>

#include "model/backend/cuda/kernels/divisor.h"
#include "model/backend/cuda/kernels/pack.cuh"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/base/loss_sums.h"
#include "model/plan/plan.h"

namespace isobar::cuda {
namespace {

constexpr int64_t kMostShared = 40 << 10;  // bytes: every device has 48 KB without opting in

using Kind = Loss::Kind;

struct Sizes {  // that indices are divided by
  Divisor tokens, across, p, channels;
  explicit Sizes(const Patch& s) : tokens(s.tokens), across(s.width / s.p), p(s.p), channels(s.channels) {
    grid(s.row0 + s.rows);  // 32 bits count all rows
  }
};

struct Place {  // of a token's patch in the image
  int band, x0;
  __device__ Place(const Patch& s, const Sizes& by, int token_of_sample) {
    const int token = static_cast<int>(s.token0) + token_of_sample;
    band = by.across(token);
    x0 = (token - band * by.across.size()) * by.p.size();
  }
};

__device__ float penalty(Kind kind, float delta, float e) {
  switch (kind) {
    case Kind::mae:
      return fabsf(e);
    case Kind::huber:
      return fabsf(e) <= delta ? 0.5f * e * e : delta * (fabsf(e) - 0.5f * delta);
    default:
      return e * e;
  }
}

// d penalty / d guess, without the loss's common factor
__device__ float slope(Kind kind, float delta, float factor, float e) {
  switch (kind) {
    case Kind::mae:
      return e > 0 ? factor : e < 0 ? -factor : e * 0.0f;  // NaN stays NaN
    case Kind::mse:
      return factor * 2 * e;
    case Kind::huber:
      return factor * (e < -delta ? -delta : e > delta ? delta : e);
    default:  // relative L2: the root is in the factor
      return factor * e;
  }
}

// Sums by block and channel: penalties, target^2, and w_h e^2; with a mask, of points that count, then their
// number as the loss weighs it, and by w_h. A warp keeps its channels and a block its tokens (every
// gridDim.x-th of a sample), so each sum has one order. partials [B][blocks][loss_columns][C]
template <class T, bool kShared>
__global__ void __launch_bounds__(kThreads, 4)
    sums_kernel(Patch s, Sizes by, const T* __restrict__ pred, const float* __restrict__ target, Loss l,
                double* __restrict__ partials) {
  double* const shared = dynamic_shared<double>();  // [K][C], then the rows' weights [p], then the patch
  const int C = static_cast<int>(s.channels), p = static_cast<int>(s.p), columns = p * p * C;
  const int K = loss_columns(l.masked);
  float* const latitude = reinterpret_cast<float*>(shared + K * C);
  float* const patch = latitude + p;
  const int64_t sample = blockIdx.y;
  const bool by_rows = l.by_rows;
  for (int c = threadIdx.x; c < K * C; c += kThreads) shared[c] = 0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t t = blockIdx.x; t < s.tokens; t += gridDim.x) {
    const int64_t row = sample * s.tokens + t - s.row0;
    if (row < 0 || row >= s.rows) continue;  // another rank's; uniform in the block
    const Place at(s, by, static_cast<int>(t));
    __syncthreads();  // the previous patch is no longer read
    for (int i = threadIdx.x; i < p; i += kThreads)
      latitude[i] = l.rows == nullptr ? 1.0f : l.rows[at.band * p + i];
    const T* guess = pred + row * columns;
    if constexpr (kShared)
      for (int j = threadIdx.x; j < columns; j += kThreads) patch[j] = as_float(guess[j]);
    __syncthreads();
    for (int c = warp; c < C; c += kBlockWarps) {
      const int64_t corner = ((sample * C + c) * s.height + at.band * p) * s.width + at.x0;
      const float* truth = target + corner;
      const float above = l.above[c], intense = l.intense[c];
      float loss = 0, size = 0, error = 0, points = 0, by_latitude = 0;
      for (int i = lane; i < p * p; i += 32) {
        const int y = by.p(i), x = i - y * p;
        const float wanted = truth[y * s.width + x];
        float e;
        if constexpr (kShared)
          e = patch[i * C + c] - wanted;
        else
          e = as_float(guess[i * C + c]) - wanted;
        if (l.masked && l.mask[corner + y * s.width + x] == 0) continue;
        const float row = latitude[y], counts = (wanted > above ? intense : 1.0f) * (by_rows ? row : 1.0f);
        loss = fmaf(counts, penalty(l.kind, l.delta, e), loss);
        size = fmaf(wanted, wanted, size);
        error = fmaf(row * e, e, error);
        points += by_rows ? row : 1.0f;
        by_latitude += row;
      }
      loss = warp_sum(loss);
      size = warp_sum(size);
      error = warp_sum(error);
      if (lane == 0) {
        shared[c] += static_cast<double>(loss);
        shared[C + c] += static_cast<double>(size);
        shared[2 * C + c] += static_cast<double>(error);
      }
      if (!l.masked) continue;
      points = warp_sum(points);
      by_latitude = warp_sum(by_latitude);
      if (lane == 0) {
        shared[3 * C + c] += static_cast<double>(points);
        shared[4 * C + c] += static_cast<double>(by_latitude);
      }
    }
  }
  __syncthreads();
  double* out = partials + (sample * gridDim.x + blockIdx.x) * K * C;
  for (int c = threadIdx.x; c < K * C; c += kThreads) out[c] = shared[c];
}

// sums (base/loss_sums.h) from the partials; one block a sample
__global__ void __launch_bounds__(kThreads)
    totals_kernel(int parts, int C, Loss l, const double* __restrict__ partials, float* __restrict__ sums) {
  __shared__ double shared[loss_columns(true) * kMaxChannels];
  const int64_t sample = blockIdx.x;
  const int K = loss_columns(l.masked);
  const double* mine = partials + sample * parts * K * C;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int c = warp; c < K * C; c += kBlockWarps) {
    double sum = 0;
    for (int p = lane; p < parts; p += 32) sum += mine[static_cast<int64_t>(p) * K * C + c];
    sum = warp_sum(sum);
    if (lane == 0) shared[c] = sum;
  }
  __syncthreads();
  float* out = sums + sample * loss_sums_size(C, l.masked);
  for (int c = threadIdx.x; c < C; c += kThreads) {
    out[kChannelErrors + c] = static_cast<float>(shared[2 * C + c]);
    if (l.masked) out[channel_points_at(C) + c] = static_cast<float>(shared[4 * C + c]);
  }
  if (threadIdx.x == 0) {
    double error = 0, size = 0;
    for (int c = 0; c < C; ++c) {
      error += (l.kind == Kind::relative_l2 ? 1.0 : static_cast<double>(l.weight[c])) * shared[c];
      size += shared[C + c];
    }
    out[kErrorSum] = static_cast<float>(error);
    out[kTargetSum] = static_cast<float>(size);
  }
  if (l.masked && threadIdx.x == 32) {
    double points = 0;
    for (int c = 0; c < C; ++c) points += shared[3 * C + c];
    out[points_at(C)] = static_cast<float>(points);
  }
}

// One thread for the loss, one for each channel's RMSE
__global__ void metrics_kernel(Patch s, Kind kind, bool masked, float weight, const float* __restrict__ sums,
                               const float* __restrict__ scalars, float* metrics) {
  const int C = static_cast<int>(s.channels), i = threadIdx.x;
  if (i > C) return;
  const double pixels = static_cast<double>(s.height) * static_cast<double>(s.width);
  const double share = static_cast<double>(weight) / static_cast<double>(s.batch);
  const int64_t samples = s.batch - (scalars == nullptr ? 0 : static_cast<int64_t>(scalars[plan::kPadding]));
  double mean = 0;
  for (int64_t b = 0; b < samples; ++b) {
    const float* sum = sums + b * loss_sums_size(C, masked);
    const int c = i - 1;
    double over = pixels;  // number of points, or the ratio's denominator
    if (i == 0 && kind == Kind::relative_l2)
      over = static_cast<double>(sum[kTargetSum]);
    else if (masked)
      over = static_cast<double>(sum[i == 0 ? points_at(C) : channel_points_at(C) + c]);
    else if (i == 0)
      over = pixels * C;
    if (masked && over == 0) continue;
    if (i > 0)
      mean += sqrt(static_cast<double>(sum[kChannelErrors + c]) / over) * share;
    else if (kind == Kind::relative_l2)
      mean += share * sqrt(static_cast<double>(sum[kErrorSum]) / over);
    else
      mean += share * (static_cast<double>(sum[kErrorSum]) / over);
  }
  metrics[i] += static_cast<float>(mean);
}

// relative L2: d sqrt(e / t) / dpred = (pred - target) / sqrt(e t); zero if the prediction is exact. One
// block a row.
template <class T, bool kShared>
__global__ void __launch_bounds__(kThreads, 4)
    slopes_kernel(Patch s, Sizes by, const T* __restrict__ pred, const float* __restrict__ target,
                  const float* __restrict__ sums, float scale, const float* __restrict__ scalars, Loss l,
                  T* __restrict__ dpred) {
  float* const truth_by_column = dynamic_shared<float>();  // in the order of the prediction's columns
  const int C = static_cast<int>(s.channels), p = static_cast<int>(s.p), columns = p * p * C;
  const auto global = static_cast<int>(s.row0 + blockIdx.x);
  const int64_t sample = by.tokens(global);
  const Place at(s, by, global - by.tokens(global) * by.tokens.size());
  if (scalars != nullptr) scale *= scalars[plan::kLossScale];
  const float* sum = sums + sample * loss_sums_size(C, l.masked);
  const double root = l.kind == Kind::relative_l2
                          ? sqrt(static_cast<double>(sum[kErrorSum]) * static_cast<double>(sum[kTargetSum]))
                      : l.masked ? static_cast<double>(sum[points_at(C)])
                                 : static_cast<double>(s.channels * s.height * s.width);
  const float factor = root > 0 ? static_cast<float>(static_cast<double>(scale) / root) : 0.0f;
  const int64_t corner = sample * C * s.height * s.width + at.band * p * s.width + at.x0;
  const auto place = [&](int c, int i) {
    const int y = by.p(i);
    return corner + (c * s.height + y) * s.width + (i - y * p);
  };
  const auto truth = [&](int c, int i) { return target[place(c, i)]; };
  if constexpr (kShared) {
    for (int j = threadIdx.x; j < columns; j += kThreads) {
      const int c = by.p(by.p(j)), i = j - c * p * p;
      truth_by_column[i * C + c] = truth(c, i);
    }
    __syncthreads();
  }
  const bool by_rows = l.by_rows && l.rows != nullptr;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * columns;
  for (int j = threadIdx.x; j < columns; j += kThreads) {
    const int i = by.channels(j), c = j - i * C;
    float wanted;
    if constexpr (kShared)
      wanted = truth_by_column[j];
    else
      wanted = truth(c, i);
    const float weight = l.kind == Kind::relative_l2
                             ? 1.0f
                             : l.weight[c] * (wanted > l.above[c] ? l.intense[c] : 1.0f) *
                                   (by_rows ? l.rows[at.band * p + by.p(i)] : 1.0f);
    const bool counts = !l.masked || l.mask[place(c, i)] != 0;
    dpred[begin + j] =
        as<T>(counts ? slope(l.kind, l.delta, factor * weight, as_float(pred[begin + j]) - wanted) : 0.0f);
  }
}

void check_channels(const Patch& s) {
  if (s.channels > kMaxChannels)
    throw std::logic_error("the GPU's losses take " + std::to_string(kMaxChannels) +
                           " channels at most, not " + std::to_string(s.channels));
}

}  // namespace

void loss_sums(const Patch& s, const void* pred, const float* target, float* sums, const Loss& l,
               double* workspace, cudaStream_t stream) {
  check_channels(s);
  if (s.batch == 0) return;
  const Sizes by(s);
  const int parts = loss_partials(s.batch, s.tokens);
  const int64_t fixed = 8 * loss_columns(l.masked) * s.channels + 4 * s.p, patch = 4 * s.p * s.p * s.channels;
  by_type(s.act, [&](auto type) {
    using T = decltype(type);
    const dim3 blocks(parts, grid(s.batch));
    by_flag(fixed + patch <= kMostShared, [&](auto fits) {
      launch(sums_kernel<T, fits()>, blocks, kThreads, fits() ? fixed + patch : fixed, stream, s, by, pred,
             target, l, workspace);
    });
  });
  launch(totals_kernel, grid(s.batch), kThreads, 0, stream, parts, static_cast<int>(s.channels), l, workspace,
         sums);
}

void loss(const Patch& s, const float* sums, float weight, const float* scalars, float* metrics,
          const Loss& l, cudaStream_t stream) {
  check_channels(s);
  launch(metrics_kernel, 1, kMaxChannels + 32, 0, stream, s, l.kind, l.masked, weight, sums, scalars,
         metrics);
}

void loss_backward(const Patch& s, const void* pred, const float* target, const float* sums, float scale,
                   const float* scalars, void* dpred, const Loss& l, cudaStream_t stream) {
  check_channels(s);
  if (s.rows == 0) return;
  const Sizes by(s);
  const int64_t patch = 4 * s.p * s.p * s.channels;
  by_type(s.act, [&](auto type) {
    using T = decltype(type);
    by_flag(patch <= kMostShared, [&](auto fits) {
      launch(slopes_kernel<T, fits()>, grid(s.rows), kThreads, fits() ? patch : 0, stream, s, by, pred,
             target, sums, scale, scalars, l, dpred);
    });
  });
}

}  // namespace isobar::cuda
