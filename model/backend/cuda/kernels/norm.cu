// Residual add + layer norm. A row stays in the registers of R threads (4 packs of 4 elements each), so it is
// read once: mean, variance and result are passes over registers. Rows that are odd or wider use kernels that
// read them in every pass.
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/row.cuh"
#include "model/backend/cuda/kernels/workspace.h"

namespace isobar::cuda {
namespace {

struct Rows {
  int64_t rows;
  int cols;
  float eps;
  int64_t period, row0;
  __device__ int64_t residual_row(int64_t r) const { return period > 0 ? (row0 + r) % period : r; }
};

// X: type of the residual and x_out, which is normalised as it is rounded there
template <class T, class X, int R>
__global__ void __launch_bounds__(kThreadsOf<R>)
    forward_in_registers(Rows p, const X* __restrict__ residual, const T* __restrict__ y,
                         const float* __restrict__ gamma, const float* __restrict__ beta,
                         X* __restrict__ x_out, T* __restrict__ h, float* __restrict__ mean,
                         float* __restrict__ rstd) {
  constexpr int kRows = kThreadsOf<R> / R;
  __shared__ float shared[32];
  const int lane = threadIdx.x % R;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / R;
  if (row >= p.rows) return;  // whole warps: no barrier follows if a block has several rows
  const int packs = p.cols / 4;
  const float inverse = 1.0f / static_cast<float>(p.cols);
  const X* from = residual + p.residual_row(row) * p.cols;
  float x[kPacks][4], add[kPacks][4];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int at = (lane + k * R) * 4;
    if (lane + k * R >= packs) continue;
    load<4>(from + at, x[k]);
    if (y != nullptr) load<4>(y + row * p.cols + at, add[k]);
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (lane + k * R >= packs) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (y != nullptr) x[k][i] = as_float(as<X>(x[k][i] + add[k][i]));
      sum += x[k][i];
    }
    if (y != nullptr) store<4>(x_out + row * p.cols + (lane + k * R) * 4, x[k]);
  }
  const float mu = row_sum<R>(sum, shared) * inverse;
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (lane + k * R >= packs) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) squares += (x[k][i] - mu) * (x[k][i] - mu);
  }
  const float r = 1.0f / sqrtf(row_sum<R>(squares, shared) * inverse + p.eps);
  if (lane == 0) {
    mean[row] = mu;
    rstd[row] = r;
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int at = (lane + k * R) * 4;
    if (lane + k * R >= packs) continue;
    float w[4], b[4], out[4];
    load<4>(gamma + at, w);
    load<4>(beta + at, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = fmaf(fmaf(x[k][i], r, -mu * r), w[i], b[i]);
    store<4>(h + row * p.cols + at, out);
  }
}

// One block a row, any width
template <class T, class X>
__global__ void __launch_bounds__(256)
    forward_any(Rows p, const X* __restrict__ residual, const T* __restrict__ y,
                const float* __restrict__ gamma, const float* __restrict__ beta, X* __restrict__ x_out,
                T* __restrict__ h, float* __restrict__ mean, float* __restrict__ rstd) {
  __shared__ float shared[32];
  const int64_t row = blockIdx.x, at = row * p.cols;
  const X* from = residual + p.residual_row(row) * p.cols;
  const auto x = [&](int j) {
    return y != nullptr ? as_float(as<X>(as_float(from[j]) + as_float(y[at + j]))) : as_float(from[j]);
  };
  const float inverse = 1.0f / static_cast<float>(p.cols);
  float sum = 0, squares = 0;
  for (int j = threadIdx.x; j < p.cols; j += 256) sum += x(j);
  const float mu = row_sum<256>(sum, shared) * inverse;
  for (int j = threadIdx.x; j < p.cols; j += 256) squares += (x(j) - mu) * (x(j) - mu);
  const float r = 1.0f / sqrtf(row_sum<256>(squares, shared) * inverse + p.eps);
  if (threadIdx.x == 0) {
    mean[row] = mu;
    rstd[row] = r;
  }
  for (int j = threadIdx.x; j < p.cols; j += 256) {
    const float value = x(j);
    if (y != nullptr) x_out[at + j] = as<X>(value);
    h[at + j] = as<T>(fmaf(fmaf(value, r, -mu * r), gamma[j], beta[j]));
  }
}

// h = LayerNorm(x) gamma + beta, y = residual + h; one warp a row, which rereads it from cache
template <class T>
__global__ void __launch_bounds__(256)
    message_kernel(Rows p, const T* __restrict__ x, const float* __restrict__ residual,
                   const float* __restrict__ gamma, const float* __restrict__ beta, T* __restrict__ h,
                   float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd) {
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32, at = row * p.cols;
  if (row >= p.rows) return;
  const float inverse = 1.0f / static_cast<float>(p.cols);
  float sum = 0, squares = 0;
  for (int j = lane; j < p.cols; j += 32) sum += as_float(x[at + j]);
  const float mu = warp_sum(sum) * inverse;
  for (int j = lane; j < p.cols; j += 32) {
    const float d = as_float(x[at + j]) - mu;
    squares = fmaf(d, d, squares);
  }
  const float r = 1.0f / sqrtf(warp_sum(squares) * inverse + p.eps);
  if (lane == 0) {
    mean[row] = mu;
    rstd[row] = r;
  }
  for (int j = lane; j < p.cols; j += 32) {
    const float out = fmaf(fmaf(as_float(x[at + j]), r, -mu * r), gamma[j], beta[j]);
    if (h != nullptr) h[at + j] = as<T>(out);
    if (y != nullptr) y[at + j] = residual != nullptr ? residual[at + j] + out : out;
  }
}

// X: type of x and dx. dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dh gamma. Blocks stride over rows
// and keep the three column sums in registers; partials: [blocks][3][cols].
template <class T, class X, int R>
__global__ void __launch_bounds__(kThreadsOf<R>)
    backward_in_registers(Rows p, const X* __restrict__ x, const float* __restrict__ mean,
                          const float* __restrict__ rstd, const float* __restrict__ gamma,
                          const T* __restrict__ dh, X* __restrict__ dx, bool first, T* __restrict__ dy,
                          float* __restrict__ partials) {
  constexpr int kRows = kThreadsOf<R> / R;
  __shared__ float shared[32];
  __shared__ float totals[kRows > 1 ? 3 * kPacks * 4 * R : 1];
  const int lane = threadIdx.x % R, packs = p.cols / 4;
  const float inverse = 1.0f / static_cast<float>(p.cols);
  float sums[3][kPacks][4] = {};
  auto &dgamma = sums[0], &dbeta = sums[1], &dbias = sums[2];
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / R; row < p.rows;
       row += static_cast<int64_t>(gridDim.x) * kRows) {
    const int64_t begin = row * p.cols;
    const float r = rstd[row], shift = -mean[row] * r;
    float normal[kPacks][4], d[kPacks][4], old[kPacks][4];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int at = (lane + k * R) * 4;
      if (lane + k * R >= packs) continue;
      load<4>(x + begin + at, normal[k]);
      load<4>(dh + begin + at, d[k]);
      if (!first) load<4>(dx + begin + at, old[k]);
    }
    float sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (lane + k * R >= packs) continue;
      float w[4];
      load<4>(gamma + (lane + k * R) * 4, w);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        normal[k][i] = fmaf(normal[k][i], r, shift);
        dgamma[k][i] = fmaf(d[k][i], normal[k][i], dgamma[k][i]);
        dbeta[k][i] += d[k][i];
        d[k][i] *= w[i];
        sum += d[k][i];
        dot = fmaf(d[k][i], normal[k][i], dot);
      }
    }
    const float constant = row_sum<R>(sum, shared) * inverse * r;
    const float slope = row_sum<R>(dot, shared) * inverse * r;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int at = (lane + k * R) * 4;
      if (lane + k * R >= packs) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float g = d[k][i] * r - fmaf(slope, normal[k][i], constant);
        if (!first) g += old[k][i];
        d[k][i] = g;
        dbias[k][i] += g;
      }
      store<4>(dx + begin + at, d[k]);
      if (dy != nullptr) store<4>(dy + begin + at, d[k]);
    }
  }
  store_sums<R>(sums, p.cols, totals, partials + static_cast<int64_t>(blockIdx.x) * 3 * p.cols);
}

// Any width: dx, one block a row
template <class T, class X>
__global__ void __launch_bounds__(256)
    backward_any(Rows p, const X* __restrict__ x, const float* __restrict__ mean,
                 const float* __restrict__ rstd, const float* __restrict__ gamma, const T* __restrict__ dh,
                 X* __restrict__ dx, bool first, T* __restrict__ dy) {
  __shared__ float shared[32];
  const int64_t row = blockIdx.x, at = row * p.cols;
  const float inverse = 1.0f / static_cast<float>(p.cols), r = rstd[row], shift = -mean[row] * r;
  float sum = 0, dot = 0;
  for (int j = threadIdx.x; j < p.cols; j += 256) {
    const float g = as_float(dh[at + j]) * gamma[j];
    sum += g;
    dot = fmaf(g, fmaf(as_float(x[at + j]), r, shift), dot);
  }
  const float constant = row_sum<256>(sum, shared) * inverse * r;
  const float slope = row_sum<256>(dot, shared) * inverse * r;
  for (int j = threadIdx.x; j < p.cols; j += 256) {
    float g =
        as_float(dh[at + j]) * gamma[j] * r - fmaf(slope, fmaf(as_float(x[at + j]), r, shift), constant);
    if (!first) g += as_float(dx[at + j]);
    dx[at + j] = as<X>(g);
    if (dy != nullptr) dy[at + j] = as<T>(g);
  }
}

// Any width: the column sums, from dx as just written
template <class T, class X>
__global__ void __launch_bounds__(128)
    backward_any_columns(Rows p, const X* __restrict__ x, const float* __restrict__ mean,
                         const float* __restrict__ rstd, const T* __restrict__ dh, const X* __restrict__ dx,
                         float* __restrict__ partials) {
  const int j = blockIdx.y * 128 + threadIdx.x;
  if (j >= p.cols) return;
  float dgamma = 0, dbeta = 0, dbias = 0;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const float d = as_float(dh[row * p.cols + j]);
    dgamma = fmaf(d, fmaf(as_float(x[row * p.cols + j]), rstd[row], -mean[row] * rstd[row]), dgamma);
    dbeta += d;
    dbias += as_float(dx[row * p.cols + j]);
  }
  float* out = partials + static_cast<int64_t>(blockIdx.x) * 3 * p.cols + j;
  out[0] = dgamma;
  out[p.cols] = dbeta;
  out[2 * p.cols] = dbias;
}

Rows rows_of(const ResidualNorm& p) {
  return {p.rows, static_cast<int>(p.cols), p.eps, p.period, p.row0};
}

}  // namespace

void residual_norm(const ResidualNorm& p, const void* residual, const void* y, const float* gamma,
                   const float* beta, void* x, void* h, float* mean, float* rstd, cudaStream_t stream) {
  if (p.rows == 0) return;
  by_types(p.act, p.stream, [&](auto type, auto type_of_stream) {
    using T = decltype(type);
    using X = decltype(type_of_stream);
    const bool fast = on_16_bytes(residual, y, gamma, beta, x, h) && by_width<1024>(p.cols, [&](auto r) {
                        constexpr int R = r();
                        constexpr int kRows = kThreadsOf<R> / R;
                        launch(forward_in_registers<T, X, R>, grid(ceil_div(p.rows, kRows)), kThreadsOf<R>, 0,
                               stream, rows_of(p), residual, y, gamma, beta, x, h, mean, rstd);
                      });
    if (!fast)
      launch(forward_any<T, X>, grid(p.rows), 256, 0, stream, rows_of(p), residual, y, gamma, beta, x, h,
             mean, rstd);
  });
}

void norm_residual(const ResidualNorm& p, const void* x, const float* residual, const float* gamma,
                   const float* beta, void* h, float* y, float* mean, float* rstd, cudaStream_t stream) {
  if (p.rows == 0) return;
  by_type(p.act, [&](auto type) {
    using T = decltype(type);
    launch(message_kernel<T>, grid(ceil_div(p.rows, 8)), 256, 0, stream, rows_of(p), x, residual, gamma, beta,
           h, y, mean, rstd);
  });
}

namespace {

// X: type of x and dx
template <class X>
void backward(const ResidualNorm& p, const X* x, const float* mean, const float* rstd, const float* gamma,
              const void* dh, X* dx, bool first, void* dy, const Sums& sums, bool accumulate,
              float* workspace, cudaStream_t stream) {
  const int partials = norm_partials(p.rows);
  int blocks = partials;
  if (p.rows == 0) blocks = 0;
  if (p.rows > 0)
    by_type(p.act, [&](auto type) {
      using T = decltype(type);
      if constexpr (std::is_same_v<X, float> || std::is_same_v<X, T>) {
        const bool fast = on_16_bytes(x, gamma, dh, dx, dy, workspace) && by_width<256>(p.cols, [&](auto r) {
                            constexpr int R = r();
                            constexpr int kRows = kThreadsOf<R> / R;
                            blocks = static_cast<int>(std::min<int64_t>(partials, ceil_div(p.rows, kRows)));
                            launch(backward_in_registers<T, X, R>, grid(blocks), kThreadsOf<R>, 0, stream,
                                   rows_of(p), x, mean, rstd, gamma, dh, dx, first, dy, workspace);
                          });
        if (fast) return;
        launch(backward_any<T, X>, grid(p.rows), 256, 0, stream, rows_of(p), x, mean, rstd, gamma, dh, dx,
               first, dy);
        launch(backward_any_columns<T, X>, dim3(grid(blocks), grid(ceil_div(p.cols, 128))), 128, 0, stream,
               rows_of(p), x, mean, rstd, dh, dx, workspace);
      }
    });
  add_partials(blocks, 3, p.cols, workspace, sums, accumulate, stream);
}

}  // namespace

void residual_norm_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, bool first, void* dy, float* dgamma,
                            float* dbeta, float* dbias, bool accumulate, float* workspace,
                            cudaStream_t stream) {
  by_type(p.stream, [&](auto type) {
    using X = decltype(type);
    backward(p, static_cast<const X*>(x), mean, rstd, gamma, dh, static_cast<X*>(dx), first, dy,
             {{dgamma, dbeta, dbias}}, accumulate, workspace, stream);
  });
}

void norm_residual_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, float* dgamma, float* dbeta,
                            float* dbias, bool accumulate, float* workspace, cudaStream_t stream) {
  by_type(p.act, [&](auto type) {
    using X = decltype(type);
    backward(p, static_cast<const X*>(x), mean, rstd, gamma, dh, static_cast<X*>(dx), true, nullptr,
             {{dgamma, dbeta, dbias}}, accumulate, workspace, stream);
  });
}

}  // namespace isobar::cuda
