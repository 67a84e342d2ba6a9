// SwiGLU, rotary positions and embedding. The gradient of the embedding is summed in the order of rows: the
// block of a word's first row adds all rows of that word.
#include "model/backend/cuda/kernels/activation.cuh"
#include "model/backend/cuda/kernels/cuda_ops.h"

namespace isobar::cuda {
namespace {

// ---- SwiGLU: V neighbours of a row, in grid-stride loops ----

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(int64_t n, int64_t cols, const T* __restrict__ u, const float* __restrict__ scale,
                  const int32_t* __restrict__ held, T* __restrict__ g) {
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads * V) {
    const int64_t row = i / cols, at = i + row * cols;  // of the gate
    if (held != nullptr && row >= *held) return;
    const float factor = scale == nullptr ? 1.0f : scale[row];
    float gate[V], up[V];
    load<V>(u + at, gate);
    load<V>(u + at + cols, up);
#pragma unroll
    for (int k = 0; k < V; ++k) gate[k] = activation_of<T, Activation::silu>(gate[k]) * (factor * up[k]);
    store<V>(g + i, gate);
  }
}

// V neighbours of du; returns the sum of dg silu(gate) up
template <class T, int V>
__device__ inline float swiglu_slopes(const T* u, const T* dg, int64_t cols, float factor, T* du) {
  float gate[V], up[V], d[V], sum = 0;
  load<V>(u, gate);
  load<V>(u + cols, up);
  load<V>(dg, d);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const float of_gate = activation_of<T, Activation::silu>(gate[k]), whole = d[k];
    sum += whole * of_gate * up[k];
    const float scaled = factor * whole;
    gate[k] = scaled * up[k] * slope_of<T, Activation::silu>(gate[k]);
    up[k] = scaled * of_gate;
  }
  store<V>(du, gate);
  store<V>(du + cols, up);
  return sum;
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(int64_t n, int64_t cols, const T* __restrict__ u, const T* __restrict__ dg,
                           T* __restrict__ du) {
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads * V) {
    const int64_t at = i + i / cols * cols;
    swiglu_slopes<T, V>(u + at, dg + i, cols, 1.0f, du + at);
  }
}

// With factors of the rows: a warp a row sums their gradient
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    scaled_swiglu_backward_kernel(int64_t rows, int64_t cols, const T* __restrict__ u,
                                  const T* __restrict__ dg, const float* __restrict__ scale,
                                  const int32_t* __restrict__ held, T* __restrict__ du,
                                  float* __restrict__ dscale) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kBlockWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = 0;
  if (held != nullptr) rows = *held;
  if (row < rows)
    for (int64_t j = lane * V; j < cols; j += 32 * V)
      sum += swiglu_slopes<T, V>(u + 2 * row * cols + j, dg + row * cols + j, cols, scale[row],
                                 du + 2 * row * cols + j);
  sum = warp_sum(sum);
  if (row < rows && lane == 0 && dscale != nullptr) dscale[row] = sum;
}

// ---- rotary positions: a thread turns one pair ----

template <class T>
__global__ void __launch_bounds__(kThreads)
    rotary_kernel(Rotary p, float sign, const float* __restrict__ table, T* x) {
  const int64_t half = p.d / 2, pairs = p.cols / 2, all = p.rows * pairs;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t row = i / pairs, pair = i - row * pairs, head = pair / half, k = pair - head * half;
    const float* const of_token = table + row % p.tokens * p.d;
    const float c = of_token[k], s = sign * of_token[half + k];
    T* const at = x + row * p.ld + head * p.d + k;
    const float a = as_float(at[0]), b = as_float(at[half]);
    at[0] = as<T>(a * c - b * s);
    at[half] = as<T>(b * c + a * s);
  }
}

// ---- heads of latent attention: a thread an element of a head's queries, and of its keys and values ----

// An element of `rope` columns that begin at x, turned; `sign`: -1 backwards
template <class T>
__device__ inline float turned(const T* x, int64_t i, int64_t rope, const float* angles, float sign) {
  const int64_t half = rope / 2, k = i < half ? i : i - half;
  const float c = angles[k], s = sign * angles[half + k], a = as_float(x[k]), b = as_float(x[half + k]);
  return i < half ? a * c - b * s : b * c + a * s;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    latent_heads_kernel(LatentHeads p, const float* __restrict__ table, const T* __restrict__ q,
                        const T* __restrict__ kv, const T* __restrict__ key, T* __restrict__ qkv) {
  const int64_t d = p.nope + p.rope, width = p.heads * d, all = p.rows * width;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t row = i / width, head = (i - row * width) / d, j = i % d;
    const float* const angles = table + row % p.tokens * p.rope;
    const T *const of_q = q + i - j, *const of_kv = kv + (row * p.heads + head) * (p.nope + p.v);
    T* const to = qkv + row * 3 * width + head * d + j;
    to[0] = j < p.nope ? of_q[j] : as<T>(turned(of_q + p.nope, j - p.nope, p.rope, angles, 1.0f));
    to[width] = j < p.nope ? of_kv[j] : as<T>(turned(key + row * p.ld_key, j - p.nope, p.rope, angles, 1.0f));
    to[2 * width] = j < p.v ? of_kv[p.nope + j] : as<T>(0.0f);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    latent_heads_backward_kernel(LatentHeads p, const float* __restrict__ table, const T* __restrict__ dqkv,
                                 T* __restrict__ dq, T* __restrict__ dkv) {
  const int64_t d = p.nope + p.rope, width = p.heads * d, all = p.rows * width;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t row = i / width, head = (i - row * width) / d, j = i % d;
    const float* const angles = table + row % p.tokens * p.rope;
    const T* const from = dqkv + row * 3 * width + head * d;
    T* const to = dkv + (row * p.heads + head) * (p.nope + p.v);
    dq[i] = j < p.nope ? from[j] : as<T>(turned(from + p.nope, j - p.nope, p.rope, angles, -1.0f));
    if (j < p.nope) to[j] = from[width + j];
    if (j < p.v) to[p.nope + j] = from[2 * width + j];
  }
}

// A thread a pair of the shared key: the heads' sum, turned backwards
template <class T>
__global__ void __launch_bounds__(kThreads)
    latent_key_backward_kernel(LatentHeads p, const float* __restrict__ table, const T* __restrict__ dqkv,
                               T* __restrict__ dkey) {
  const int64_t d = p.nope + p.rope, width = p.heads * d, half = p.rope / 2;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < p.rows * half;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t row = i / half, k = i - row * half;
    const float* const angles = table + row % p.tokens * p.rope;
    const T* const keys = dqkv + row * 3 * width + width + p.nope;
    float a = 0, b = 0;
    for (int64_t h = 0; h < p.heads; ++h) {
      a += as_float(keys[h * d + k]);
      b += as_float(keys[h * d + half + k]);
    }
    const float c = angles[k], s = -angles[half + k];
    dkey[row * p.ld_key + k] = as<T>(a * c - b * s);
    dkey[row * p.ld_key + half + k] = as<T>(b * c + a * s);
  }
}

// ---- embedding ----

template <class T, class W>
__global__ void __launch_bounds__(kThreads)
    embedding_kernel(Embedding p, const int32_t* __restrict__ words, const W* __restrict__ table,
                     const W* __restrict__ positions, T* __restrict__ x) {
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t word = words[row] - p.first;
    const bool held = word >= 0 && word < p.words;
    const auto token = static_cast<int>(row) % static_cast<int>(p.tokens.size());
    const W* const of_word = table + word * p.cols;
    const W* const of_place = positions == nullptr ? nullptr : positions + p.tokens.place(token) * p.cols;
    for (int64_t j = threadIdx.x; j < p.cols; j += kThreads) {
      float sum = held ? as_float(of_word[j]) : 0.0f;
      if (of_place != nullptr) sum += as_float(of_place[j]);
      x[row * p.cols + j] = as<T>(sum);
    }
  }
}

// One block a row: does nothing if an earlier row has the same word, else adds all rows of it in order.
template <class T>
__global__ void __launch_bounds__(kThreads)
    embedding_table_kernel(Embedding p, const int32_t* __restrict__ words, const T* __restrict__ dx,
                           float* __restrict__ dtable) {
  __shared__ int same[kThreads];
  __shared__ int earlier;
  const int64_t row = blockIdx.x;
  const int32_t mine = words[row];
  const int64_t word = mine - p.first;
  if (word < 0 || word >= p.words) return;
  if (threadIdx.x == 0) earlier = 0;
  __syncthreads();
  for (int64_t r = threadIdx.x; r < row; r += kThreads)
    if (words[r] == mine) earlier = 1;
  __syncthreads();
  if (earlier != 0) return;
  for (int64_t from = row; from < p.rows; from += kThreads) {
    const int64_t r = from + threadIdx.x;
    same[threadIdx.x] = r < p.rows && words[r] == mine ? 1 : 0;
    __syncthreads();
    for (int k = 0; k < kThreads; ++k)
      if (same[k] != 0)
        for (int64_t j = threadIdx.x; j < p.cols; j += kThreads)
          dtable[word * p.cols + j] += as_float(dx[(from + k) * p.cols + j]);
    __syncthreads();  // `same` is used again
  }
}

// A thread sums one element over the samples.
template <class T>
__global__ void __launch_bounds__(kThreads)
    embedding_positions_kernel(Embedding p, const T* __restrict__ dx, float* __restrict__ dpositions) {
  const int64_t all = p.tokens.size() * p.cols;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t token = i / p.cols;
    float& to = dpositions[p.tokens.place(token) * p.cols + i - token * p.cols];
    float sum = to;
    for (int64_t at = i; at < p.rows * p.cols; at += all) sum += as_float(dx[at]);
    to = sum;
  }
}

void clear(float* x, int64_t n, cudaStream_t stream) {
  ISOBAR_CUDA(cudaMemsetAsync(x, 0, static_cast<size_t>(n) * sizeof(float), stream));
}

}  // namespace

void swiglu(int64_t rows, int64_t cols, DType act, const void* u, const float* scale, const int32_t* held,
            void* g, cudaStream_t stream) {
  const int64_t n = rows * cols;
  if (n == 0) return;
  by_widest_pack(act, cols, on_16_bytes(u, g), [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int V = width();
    launch(swiglu_kernel<T, V>, filling_grid(n / V, kThreads), kThreads, 0, stream, n, cols, u, scale, held,
           g);
  });
}

void swiglu_backward(int64_t rows, int64_t cols, DType act, const void* u, const void* dg, const float* scale,
                     const int32_t* held, void* du, float* dscale, cudaStream_t stream) {
  const int64_t n = rows * cols;
  if (n == 0) return;
  by_widest_pack(act, cols, on_16_bytes(u, dg, du), [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int V = width();
    if (scale == nullptr)
      launch(swiglu_backward_kernel<T, V>, filling_grid(n / V, kThreads), kThreads, 0, stream, n, cols, u, dg,
             du);
    else
      launch(scaled_swiglu_backward_kernel<T, V>, grid(ceil_div(rows, kBlockWarps)), kThreads, 0, stream,
             rows, cols, u, dg, scale, held, du, dscale);
  });
}

void rotary(const Rotary& p, bool backward, const float* table, void* x, cudaStream_t stream) {
  if (p.rows * p.cols == 0) return;
  by_type(p.act, [&](auto type) {
    using T = decltype(type);
    launch(rotary_kernel<T>, filling_grid(p.rows * p.cols / 2, kThreads), kThreads, 0, stream, p,
           backward ? -1.0f : 1.0f, table, x);
  });
}

void latent_heads(const LatentHeads& p, const float* table, const void* q, const void* kv, const void* key,
                  void* qkv, cudaStream_t stream) {
  if (p.rows == 0) return;
  by_type(p.act, [&](auto type) {
    using T = decltype(type);
    launch(latent_heads_kernel<T>, filling_grid(p.rows * p.heads * (p.nope + p.rope), kThreads), kThreads, 0,
           stream, p, table, q, kv, key, qkv);
  });
}

void latent_heads_backward(const LatentHeads& p, const float* table, const void* dqkv, void* dq, void* dkv,
                           void* dkey, cudaStream_t stream) {
  if (p.rows == 0) return;
  by_type(p.act, [&](auto type) {
    using T = decltype(type);
    const T* const from = static_cast<const T*>(dqkv);
    launch(latent_heads_backward_kernel<T>, filling_grid(p.rows * p.heads * (p.nope + p.rope), kThreads),
           kThreads, 0, stream, p, table, from, dq, dkv);
    launch(latent_key_backward_kernel<T>, filling_grid(p.rows * p.rope / 2, kThreads), kThreads, 0, stream, p,
           table, from, dkey);
  });
}

void embedding(const Embedding& p, const int32_t* words, const void* table, const void* positions, void* x,
               cudaStream_t stream) {
  if (p.rows * p.cols == 0) return;
  by_type(p.act, [&](auto type) {
    by_type(p.table, [&](auto type_of_table) {
      using T = decltype(type);
      using W = decltype(type_of_table);
      launch(embedding_kernel<T, W>, grid(p.rows), kThreads, 0, stream, p, words, table, positions, x);
    });
  });
}

void embedding_backward(const Embedding& p, const int32_t* words, const void* dx, float* dtable,
                        float* dpositions, int64_t positions, AddsTo adds, cudaStream_t stream) {
  if (dtable != nullptr && !adds.table) clear(dtable, p.words * p.cols, stream);
  if (dpositions != nullptr && !adds.positions) clear(dpositions, positions * p.cols, stream);
  if (p.rows * p.cols == 0) return;
  by_type(p.act, [&](auto type) {
    using T = decltype(type);
    if (dtable != nullptr)
      launch(embedding_table_kernel<T>, grid(p.rows), kThreads, 0, stream, p, words, dx, dtable);
    if (dpositions != nullptr)
      launch(embedding_positions_kernel<T>, filling_grid(p.tokens.size() * p.cols, kThreads), kThreads, 0,
             stream, p, dx, dpositions);
  });
}

// ---- ops ----

namespace {

// The number of an operand's rows that hold data; null: all
template <class Call>
const int32_t* held_of(const Call& c) {
  const int32_t* const offsets = c.in("offsets");
  return offsets == nullptr ? nullptr : offsets + c.view_in("offsets").count - 1;
}

void run_swiglu(const CudaCall<plan::OpKind::swiglu>& c) {
  swiglu(c.view_out("g").count / c.a.cols, c.a.cols, c.type_in("u"), c.in("u"), c.in("scale"), held_of(c),
         c.out("g"), c.stream);
}

void run_swiglu_backward(const CudaCall<plan::OpKind::swiglu_backward>& c) {
  swiglu_backward(c.view_in("dg").count / c.a.cols, c.a.cols, c.type_in("u"), c.in("u"), c.in("dg"),
                  c.in("scale"), held_of(c), c.out("du"), c.out("dscale"), c.stream);
}

}  // namespace

CudaRows language_ops() {
  static constexpr CudaRow kRows[] = {row<run_swiglu>, row<run_swiglu_backward>};
  return kRows;
}

}  // namespace isobar::cuda
