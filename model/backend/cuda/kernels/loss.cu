// Losses and latitude-weighted RMSE on predictions that lie as patches, [rows, p*p*C] with columns (row, col,
// c), against images [B,C,H,W].
//
// The two orders meet in shared memory, a patch at a time: what is stored by column is walked by channel, so
// that both sides are read in runs. Patches too large for that are walked without.
#include <cmath>

#include "model/backend/cuda/kernels/pack.cuh"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/plan/plan.h"

namespace isobar::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int64_t kMostShared = 40 << 10;  // bytes: every device gives 48 KB unasked

using Kind = Loss::Kind;

struct Place {  // of a token's patch in the image
  int band, x0;
  __device__ Place(const Patch& s, int64_t token_of_sample) {
    const auto token = static_cast<int>(s.token0 + token_of_sample);
    const int across = static_cast<int>(s.width / s.p);
    band = token / across;
    x0 = (token - band * across) * static_cast<int>(s.p);
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

// d penalty / d guess, but for the factor of each loss
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

// Per block and channel: the sums of penalties, of target^2, and of w_h e^2. A warp keeps to its channels and
// a block to its tokens (every gridDim.x-th of a sample), so each sum has one order. partials
// [B][blocks][3][C]
template <class T, bool kShared>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(Patch s, const T* __restrict__ pred, const float* __restrict__ target, Loss l,
                double* __restrict__ partials) {
  double* const shared = dynamic_shared<double>();  // [3][C], then the rows' weights [p], then the patch
  const int C = static_cast<int>(s.channels), p = static_cast<int>(s.p), columns = p * p * C;
  float* const latitude = reinterpret_cast<float*>(shared + 3 * C);
  float* const patch = latitude + p;
  const int64_t sample = blockIdx.y;
  const bool by_rows = l.by_rows;
  for (int c = threadIdx.x; c < 3 * C; c += kThreads) shared[c] = 0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t t = blockIdx.x; t < s.tokens; t += gridDim.x) {
    const int64_t row = sample * s.tokens + t - s.row0;
    if (row < 0 || row >= s.rows) continue;  // another rank's; the same for the whole block
    const Place at(s, t);
    __syncthreads();  // the patch before is done with
    for (int i = threadIdx.x; i < p; i += kThreads)
      latitude[i] = l.rows == nullptr ? 1.0f : l.rows[at.band * p + i];
    const T* guess = pred + row * columns;
    if constexpr (kShared)
      for (int j = threadIdx.x; j < columns; j += kThreads) patch[j] = as_float(guess[j]);
    __syncthreads();
    for (int c = warp; c < C; c += kWarps) {
      const float* truth = target + ((sample * C + c) * s.height + at.band * p) * s.width + at.x0;
      const float above = l.above[c], intense = l.intense[c];
      float loss = 0, size = 0, error = 0;
      for (int i = lane; i < p * p; i += 32) {
        const int y = i / p, x = i - y * p;
        const float wanted = truth[y * s.width + x];
        float e;
        if constexpr (kShared)
          e = patch[i * C + c] - wanted;
        else
          e = as_float(guess[i * C + c]) - wanted;
        const float row = latitude[y], counts = (wanted > above ? intense : 1.0f) * (by_rows ? row : 1.0f);
        loss = fmaf(counts, penalty(l.kind, l.delta, e), loss);
        size = fmaf(wanted, wanted, size);
        error = fmaf(row * e, e, error);
      }
      loss = warp_sum(loss);
      size = warp_sum(size);
      error = warp_sum(error);
      if (lane == 0) {
        shared[c] += static_cast<double>(loss);
        shared[C + c] += static_cast<double>(size);
        shared[2 * C + c] += static_cast<double>(error);
      }
    }
  }
  __syncthreads();
  double* out = partials + (sample * gridDim.x + blockIdx.x) * 3 * C;
  for (int c = threadIdx.x; c < 3 * C; c += kThreads) out[c] = shared[c];
}

// sums [B, 2 + C] from the partials; a block a sample
__global__ void __launch_bounds__(kThreads)
    totals_kernel(int parts, int C, Loss l, const double* __restrict__ partials, float* __restrict__ sums) {
  __shared__ double shared[3 * kMaxChannels];
  const int64_t sample = blockIdx.x;
  const double* mine = partials + sample * parts * 3 * C;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int c = warp; c < 3 * C; c += kWarps) {
    double sum = 0;
    for (int p = lane; p < parts; p += 32) sum += mine[static_cast<int64_t>(p) * 3 * C + c];
    sum = warp_sum(sum);
    if (lane == 0) shared[c] = sum;
  }
  __syncthreads();
  float* out = sums + sample * (2 + C);
  for (int c = threadIdx.x; c < C; c += kThreads) out[2 + c] = static_cast<float>(shared[2 * C + c]);
  if (threadIdx.x == 0) {
    double error = 0, size = 0;
    for (int c = 0; c < C; ++c) {
      error += (l.kind == Kind::relative_l2 ? 1.0 : static_cast<double>(l.weight[c])) * shared[c];
      size += shared[C + c];
    }
    out[0] = static_cast<float>(error);
    out[1] = static_cast<float>(size);
  }
}

// One thread for the loss, one for each channel's RMSE
__global__ void metrics_kernel(Patch s, Kind kind, float weight, const float* __restrict__ sums,
                               const float* __restrict__ scalars, float* metrics) {
  const int C = static_cast<int>(s.channels), i = threadIdx.x;
  if (i > C) return;
  const double pixels = static_cast<double>(s.height) * static_cast<double>(s.width);
  const double share = static_cast<double>(weight) / static_cast<double>(s.batch);
  const int64_t samples = s.batch - (scalars == nullptr ? 0 : static_cast<int64_t>(scalars[kPadding]));
  double mean = 0;
  for (int64_t b = 0; b < samples; ++b) {
    const float* sum = sums + b * (2 + C);
    if (i > 0)
      mean += sqrt(static_cast<double>(sum[1 + i]) / pixels) * share;
    else if (kind == Kind::relative_l2)
      mean += share * sqrt(static_cast<double>(sum[0]) / static_cast<double>(sum[1]));
    else
      mean += share * (static_cast<double>(sum[0]) / (pixels * C));
  }
  metrics[i] += static_cast<float>(mean);
}

// relative L2: d sqrt(e / t) / dpred = (pred - target) / sqrt(e t); zero where the prediction is exact. A
// block a row.
template <class T, bool kShared>
__global__ void __launch_bounds__(kThreads)
    slopes_kernel(Patch s, const T* __restrict__ pred, const float* __restrict__ target,
                  const float* __restrict__ sums, float scale, const float* __restrict__ scalars, Loss l,
                  T* __restrict__ dpred) {
  float* const truth_by_column = dynamic_shared<float>();  // in the order of the prediction's columns
  const int C = static_cast<int>(s.channels), p = static_cast<int>(s.p), columns = p * p * C;
  const int64_t global = s.row0 + blockIdx.x, sample = global / s.tokens;
  const Place at(s, global % s.tokens);
  if (scalars != nullptr) scale *= scalars[kLossScale];
  const float* sum = sums + sample * (2 + C);
  const double root = l.kind == Kind::relative_l2
                          ? sqrt(static_cast<double>(sum[0]) * static_cast<double>(sum[1]))
                          : static_cast<double>(s.channels * s.height * s.width);
  const float factor = root > 0 ? static_cast<float>(static_cast<double>(scale) / root) : 0.0f;
  const float* image = target + sample * C * s.height * s.width + at.band * p * s.width + at.x0;
  const auto truth = [&](int c, int i) { return image[(c * s.height + i / p) * s.width + i % p]; };
  if constexpr (kShared) {
    for (int j = threadIdx.x; j < columns; j += kThreads) {
      const int c = j / (p * p), i = j - c * p * p;
      truth_by_column[i * C + c] = truth(c, i);
    }
    __syncthreads();
  }
  const bool by_rows = l.by_rows && l.rows != nullptr;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * columns;
  for (int j = threadIdx.x; j < columns; j += kThreads) {
    const int i = j / C, c = j - i * C;
    float wanted;
    if constexpr (kShared)
      wanted = truth_by_column[j];
    else
      wanted = truth(c, i);
    const float weight = l.kind == Kind::relative_l2
                             ? 1.0f
                             : l.weight[c] * (wanted > l.above[c] ? l.intense[c] : 1.0f) *
                                   (by_rows ? l.rows[at.band * p + i / p] : 1.0f);
    dpred[begin + j] = as<T>(slope(l.kind, l.delta, factor * weight, as_float(pred[begin + j]) - wanted));
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
  const int parts = loss_partials(s.batch, s.tokens);
  const int64_t fixed = 24 * s.channels + 4 * s.p, patch = 4 * s.p * s.p * s.channels;
  by_type(s.act, [&](auto type) {
    using T = decltype(type);
    const dim3 blocks(parts, grid(s.batch));
    const auto* guess = static_cast<const T*>(pred);
    if (fixed + patch <= kMostShared)
      launch(sums_kernel<T, true>, blocks, kThreads, fixed + patch, stream, s, guess, target, l, workspace);
    else
      launch(sums_kernel<T, false>, blocks, kThreads, fixed, stream, s, guess, target, l, workspace);
  });
  launch(totals_kernel, grid(s.batch), kThreads, 0, stream, parts, static_cast<int>(s.channels), l, workspace,
         sums);
}

void loss(const Patch& s, const float* sums, float weight, const float* scalars, float* metrics,
          const Loss& l, cudaStream_t stream) {
  check_channels(s);
  launch(metrics_kernel, 1, kMaxChannels + 32, 0, stream, s, l.kind, weight, sums, scalars, metrics);
}

void loss_backward(const Patch& s, const void* pred, const float* target, const float* sums, float scale,
                   const float* scalars, void* dpred, const Loss& l, cudaStream_t stream) {
  check_channels(s);
  if (s.rows == 0) return;
  const int64_t patch = 4 * s.p * s.p * s.channels;
  by_type(s.act, [&](auto type) {
    using T = decltype(type);
    const auto* guess = static_cast<const T*>(pred);
    auto* out = static_cast<T*>(dpred);
    if (patch <= kMostShared)
      launch(slopes_kernel<T, true>, grid(s.rows), kThreads, patch, stream, s, guess, target, sums, scale,
             scalars, l, out);
    else
      launch(slopes_kernel<T, false>, grid(s.rows), kThreads, 0, stream, s, guess, target, sums, scale,
             scalars, l, out);
  });
}

}  // namespace isobar::cuda
