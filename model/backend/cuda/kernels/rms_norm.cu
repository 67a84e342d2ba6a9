// Residual add + RMSNorm. A row stays in the registers of R threads (row.cuh); rows that are odd or wider use
// kernels that read them in every pass.
#include <algorithm>

#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/row.cuh"
#include "model/backend/cuda/kernels/workspace.h"

namespace isobar::cuda {
namespace {

struct RmsRows {
  int64_t rows;
  int cols;
  float eps;
  int64_t heads, ld_x, ld_h;
  __device__ int64_t in_x(int64_t row) const { return begin(row, ld_x); }
  __device__ int64_t in_h(int64_t row) const { return begin(row, ld_h); }
  // In 32 bits, which hold any number of rows: a division in 64 is a call that takes stack.
  __device__ int64_t begin(int64_t row, int64_t ld) const {
    const auto r = static_cast<uint32_t>(row), n = static_cast<uint32_t>(heads);
    return r / n * ld + static_cast<int64_t>(r % n) * cols;
  }
};

// X: type of the residual and the sum, which is normalised as it is rounded there; kAdds: there is a y
template <class T, class X, int R, bool kAdds>
__global__ void __launch_bounds__(kThreadsOf<R>)
    rms_in_registers(RmsRows p, const X* __restrict__ residual, const T* __restrict__ y,
                     const float* __restrict__ gamma, X* __restrict__ sum, T* __restrict__ h,
                     float* __restrict__ rstd) {
  constexpr int kRows = kThreadsOf<R> / R;
  __shared__ float shared[32];
  const int lane = threadIdx.x % R;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / R;
  if (row >= p.rows) return;  // whole warps: no barrier follows if a block has several rows
  const int packs = p.cols / 4;
  const int64_t begin = p.in_x(row), begin_y = row * p.cols, begin_h = p.in_h(row);
  float x[kPacks][4], squares = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int at = (lane + k * R) * 4;
    if (lane + k * R >= packs) continue;
    load<4>(residual + begin + at, x[k]);
    if constexpr (kAdds) {
      float add[4];
      load<4>(y + begin_y + at, add);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[k][i] = as_float(as<X>(x[k][i] + add[i]));
      store<4>(sum + begin + at, x[k]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) squares = fmaf(x[k][i], x[k][i], squares);
  }
  const float r = 1.0f / sqrtf(row_sum<R>(squares, shared) / static_cast<float>(p.cols) + p.eps);
  if (lane == 0) rstd[row] = r;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int at = (lane + k * R) * 4;
    if (lane + k * R >= packs) continue;
    float w[4];
    load<4>(gamma + at, w);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[k][i] = x[k][i] * r * w[i];
    store<4>(h + begin_h + at, x[k]);
  }
}

// One block a row, any width
template <class T, class X>
__global__ void __launch_bounds__(256)
    rms_any(RmsRows p, const X* __restrict__ residual, const T* __restrict__ y,
            const float* __restrict__ gamma, X* __restrict__ sum, T* __restrict__ h,
            float* __restrict__ rstd) {
  __shared__ float shared[32];
  const int64_t row = blockIdx.x, at = p.in_x(row), at_y = row * p.cols, at_h = p.in_h(row);
  const auto x = [&](int j) {
    const float from = as_float(residual[at + j]);
    return y != nullptr ? as_float(as<X>(from + as_float(y[at_y + j]))) : from;
  };
  float squares = 0;
  for (int j = threadIdx.x; j < p.cols; j += 256) squares = fmaf(x(j), x(j), squares);
  const float r = 1.0f / sqrtf(row_sum<256>(squares, shared) / static_cast<float>(p.cols) + p.eps);
  if (threadIdx.x == 0) rstd[row] = r;
  for (int j = threadIdx.x; j < p.cols; j += 256) {
    const float value = x(j);
    if (y != nullptr) sum[at + j] = as<X>(value);
    h[at_h + j] = as<T>(value * r * gamma[j]);
  }
}

// X: type of x and dx. dx = rstd (g - xhat mean(g xhat)) with g = dh gamma. Blocks stride over rows and keep
// dgamma in registers; partials: [blocks][cols].
template <class T, class X, int R>
__global__ void __launch_bounds__(kThreadsOf<R>)
    rms_backward_in_registers(RmsRows p, const X* __restrict__ x, const float* __restrict__ rstd,
                              const float* __restrict__ gamma, const T* __restrict__ dh, X* __restrict__ dx,
                              bool first, T* __restrict__ dy, float* __restrict__ partials) {
  constexpr int kRows = kThreadsOf<R> / R;
  __shared__ float shared[32];
  __shared__ float totals[kRows > 1 ? kPacks * 4 * R : 1];
  const int lane = threadIdx.x % R, packs = p.cols / 4;
  float sums[1][kPacks][4] = {};
  auto& dgamma = sums[0];
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / R; row < p.rows;
       row += static_cast<int64_t>(gridDim.x) * kRows) {
    const int64_t begin = p.in_x(row), begin_y = row * p.cols, begin_h = p.in_h(row);
    const float r = rstd[row];
    float normal[kPacks][4], d[kPacks][4], old[kPacks][4], dot = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int at = (lane + k * R) * 4;
      if (lane + k * R >= packs) continue;
      float w[4];
      load<4>(x + begin + at, normal[k]);
      load<4>(dh + begin_h + at, d[k]);
      load<4>(gamma + at, w);
      if (!first) load<4>(dx + begin + at, old[k]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        normal[k][i] *= r;
        dgamma[k][i] = fmaf(d[k][i], normal[k][i], dgamma[k][i]);
        d[k][i] *= w[i];
        dot = fmaf(d[k][i], normal[k][i], dot);
      }
    }
    const float slope = row_sum<R>(dot, shared) / static_cast<float>(p.cols);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int at = (lane + k * R) * 4;
      if (lane + k * R >= packs) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        d[k][i] = r * (d[k][i] - slope * normal[k][i]);
        if (!first) d[k][i] += old[k][i];
      }
      store<4>(dx + begin + at, d[k]);
      if (dy != nullptr) store<4>(dy + begin_y + at, d[k]);
    }
  }
  store_sums<R>(sums, p.cols, totals, partials + static_cast<int64_t>(blockIdx.x) * p.cols);
}

// Any width: dx, one block a row
template <class T, class X>
__global__ void __launch_bounds__(256)
    rms_backward_any(RmsRows p, const X* __restrict__ x, const float* __restrict__ rstd,
                     const float* __restrict__ gamma, const T* __restrict__ dh, X* __restrict__ dx,
                     bool first, T* __restrict__ dy) {
  __shared__ float shared[32];
  const int64_t row = blockIdx.x, at = p.in_x(row), at_y = row * p.cols, at_h = p.in_h(row);
  const float r = rstd[row];
  float dot = 0;
  for (int j = threadIdx.x; j < p.cols; j += 256)
    dot = fmaf(as_float(dh[at_h + j]) * gamma[j], as_float(x[at + j]) * r, dot);
  const float slope = row_sum<256>(dot, shared) / static_cast<float>(p.cols);
  for (int j = threadIdx.x; j < p.cols; j += 256) {
    float g = r * (as_float(dh[at_h + j]) * gamma[j] - slope * (as_float(x[at + j]) * r));
    if (!first) g += as_float(dx[at + j]);
    dx[at + j] = as<X>(g);
    if (dy != nullptr) dy[at_y + j] = as<T>(g);
  }
}

// Any width: dgamma
template <class T, class X>
__global__ void __launch_bounds__(128)
    rms_backward_any_columns(RmsRows p, const X* __restrict__ x, const float* __restrict__ rstd,
                             const T* __restrict__ dh, float* __restrict__ partials) {
  const int j = blockIdx.y * 128 + threadIdx.x;
  if (j >= p.cols) return;
  float dgamma = 0;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x)
    dgamma = fmaf(as_float(dh[p.in_h(row) + j]), as_float(x[p.in_x(row) + j]) * rstd[row], dgamma);
  partials[static_cast<int64_t>(blockIdx.x) * p.cols + j] = dgamma;
}

RmsRows rms_rows(const RmsNorm& p) {
  return {p.rows, static_cast<int>(p.cols), p.eps, p.heads, p.ld_x, p.ld_h};
}

// Every row begins with a whole pack of four, if the first does.
bool in_packs(const RmsNorm& p) {
  return p.ld_x % 4 == 0 && p.ld_h % 4 == 0;
}

}  // namespace

void rms_norm(const RmsNorm& p, const void* residual, const void* y, const float* gamma, void* x, void* h,
              float* rstd, cudaStream_t stream) {
  if (p.rows == 0) return;
  by_types(p.act, p.stream, [&](auto type, auto type_of_stream) {
    using T = decltype(type);
    using X = decltype(type_of_stream);
    const bool fast =
        in_packs(p) && on_16_bytes(residual, y, gamma, x, h) && by_width<1024>(p.cols, [&](auto r) {
          constexpr int R = r();
          by_flag(y != nullptr, [&](auto adds) {
            launch(rms_in_registers<T, X, R, adds()>, grid(ceil_div(p.rows, kThreadsOf<R> / R)),
                   kThreadsOf<R>, 0, stream, rms_rows(p), residual, y, gamma, x, h, rstd);
          });
        });
    if (!fast)
      launch(rms_any<T, X>, grid(p.rows), 256, 0, stream, rms_rows(p), residual, y, gamma, x, h, rstd);
  });
}

void rms_norm_backward(const RmsNorm& p, const void* x, const float* rstd, const float* gamma, const void* dh,
                       void* dx, bool first, void* dy, float* dgamma, bool accumulate, float* workspace,
                       cudaStream_t stream) {
  const int partials = norm_partials(p.rows);
  int blocks = p.rows > 0 ? partials : 0;
  if (p.rows > 0)
    by_types(p.act, p.stream, [&](auto type, auto type_of_stream) {
      using T = decltype(type);
      using X = decltype(type_of_stream);
      const bool fast =
          in_packs(p) && on_16_bytes(x, gamma, dh, dx, dy, workspace) && by_width<256>(p.cols, [&](auto r) {
            constexpr int R = r();
            blocks = static_cast<int>(std::min<int64_t>(partials, ceil_div(p.rows, kThreadsOf<R> / R)));
            launch(rms_backward_in_registers<T, X, R>, grid(blocks), kThreadsOf<R>, 0, stream, rms_rows(p), x,
                   rstd, gamma, dh, dx, first, dy, workspace);
          });
      if (fast) return;
      // The sums first: dx may be written over dh.
      launch(rms_backward_any_columns<T, X>, dim3(grid(blocks), grid(ceil_div(p.cols, 128))), 128, 0, stream,
             rms_rows(p), x, rstd, dh, workspace);
      launch(rms_backward_any<T, X>, grid(p.rows), 256, 0, stream, rms_rows(p), x, rstd, gamma, dh, dx, first,
             dy);
    });
  add_partials(blocks, 1, p.cols, workspace, {{dgamma}}, accumulate, stream);
}

}  // namespace isobar::cuda
