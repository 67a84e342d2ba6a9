// A warp has one sample's key head and its lanes the columns; keys and values stay in registers, and memory
// is passed once.
//
//   p = exp(q k scale - lse), dp = do v, ds = p (dp - rowsum(do o)) scale;  dv = p' do, dk = ds' q, dq = ds k
#include <cmath>

#include "model/backend/cuda/kernels/attention/attention_few.h"
#include "model/backend/cuda/kernels/attention/attention_tile.cuh"

namespace isobar::cuda {
namespace {

// A lane's columns of a row: kWide neighbours, those past d are 0. Packed: rows begin at multiples of kWide.
template <bool kPacked, int kWide>
struct Columns {
  int d, first;
  bool tf32;
  template <class T>
  __device__ void read(const T* row, float (&x)[kWide]) const {
    if constexpr (kPacked) {
      if (first < d) return load<kWide>(row + first, x);
    }
#pragma unroll
    for (int w = 0; w < kWide; ++w) x[w] = !kPacked && first + w < d ? as_float(row[first + w]) : 0.0f;
  }
  template <class T>
  __device__ void operands(const T* row, float (&x)[kWide]) const {
    read(row, x);
#pragma unroll
    for (int w = 0; w < kWide; ++w) x[w] = operand(x[w]);
  }
  template <class T>
  __device__ void write(T* row, const float (&x)[kWide]) const {
    if constexpr (kPacked) {
      if (first < d) store<kWide>(row + first, x);
    } else {
#pragma unroll
      for (int w = 0; w < kWide; ++w)
        if (first + w < d) row[first + w] = as<T>(x[w]);
    }
  }
  __device__ float operand(float x) const {
    return tf32 ? nearest_tf32(x) : x;
  }
  __device__ float dot(const float (&x)[kWide], const float (&y)[kWide]) const {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWide; ++w) sum = fmaf(x[w], y[w], sum);
    return warp_sum(sum);
  }
};

// The key head of this warp, if there is one
struct Place {
  int64_t batch, kv_head;
  bool some;
  __device__ explicit Place(const Attention& a) {
    const int64_t unit = static_cast<int64_t>(blockIdx.x) * kBlockWarps + threadIdx.x / 32;
    batch = unit / a.kv_heads;
    kv_head = unit - batch * a.kv_heads;
    some = unit < a.batch * a.kv_heads;
  }
};

template <class T, int kKeys, int kWide, bool kPacked>
__global__ void __launch_bounds__(kThreads, 1)
    few_kernel(Attention a, const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,
               T* __restrict__ o, float* __restrict__ lse) {
  const Place at(a);
  if (!at.some) return;
  const Columns<kPacked, kWide> columns{static_cast<int>(a.d), static_cast<int>(threadIdx.x % 32) * kWide,
                                        a.tf32};
  const int tk = static_cast<int>(a.tk);
  float key[kKeys][kWide] = {}, value[kKeys][kWide] = {};
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    if (j >= tk) continue;
    const int64_t row = (at.batch * a.tk + j) * a.ld_kv + at.kv_head * a.d;
    columns.operands(k + row, key[j]);
    columns.operands(v + row, value[j]);
  }
  const int64_t group = a.heads / a.kv_heads;
  for (int64_t head = at.kv_head * group; head < (at.kv_head + 1) * group; ++head)
    for (int64_t i = 0; i < a.tq; ++i) {
      float query[kWide], score[kKeys] = {}, out[kWide] = {}, top = -INFINITY, sum = 0;
      columns.operands(q + (at.batch * a.tq + i) * a.ld_q + head * a.d, query);
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        if (j >= tk) continue;
        const float product = columns.dot(query, key[j]);
        score[j] = sees(a, i, j) ? (product + more_of(a, head, i, j)) * a.scale : -INFINITY;
        top = fmaxf(top, score[j]);
      }
      const float base = top == -INFINITY ? 0.0f : top;  // no key seen: avoids infinity minus infinity
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        if (j >= tk) continue;
        const float p = expf(score[j] - base), weight = columns.operand(p);
        sum += p;
#pragma unroll
        for (int w = 0; w < kWide; ++w) out[w] = fmaf(weight, value[j][w], out[w]);
      }
      const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
#pragma unroll
      for (int w = 0; w < kWide; ++w) out[w] *= inverse;
      columns.write(o + (at.batch * a.tq + i) * a.ld_o + head * a.d, out);
      if (threadIdx.x % 32 == 0)
        lse[(at.batch * a.heads + head) * a.tq + i] = sum > 0 ? top + logf(sum) : -INFINITY;
    }
}

template <class T, int kKeys, int kWide, bool kPacked>
__global__ void __launch_bounds__(kThreads, 1) few_backward_kernel(Attention a, BackwardOperands<T> x) {
  const Place at(a);
  if (!at.some) return;
  const Columns<kPacked, kWide> columns{static_cast<int>(a.d), static_cast<int>(threadIdx.x % 32) * kWide,
                                        a.tf32};
  const int tk = static_cast<int>(a.tk);
  const auto row_of_key = [&](int j) { return (at.batch * a.tk + j) * a.ld_kv + at.kv_head * a.d; };
  float key[kKeys][kWide] = {}, value[kKeys][kWide] = {}, dk[kKeys][kWide] = {}, dv[kKeys][kWide] = {};
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    if (j >= tk) continue;
    columns.operands(x.k + row_of_key(j), key[j]);
    columns.operands(x.v + row_of_key(j), value[j]);
  }
  const int64_t group = a.heads / a.kv_heads;
  for (int64_t head = at.kv_head * group; head < (at.kv_head + 1) * group; ++head)
    for (int64_t i = 0; i < a.tq; ++i) {
      const int64_t row = at.batch * a.tq + i, at_o = row * a.ld_o + head * a.d;
      const int64_t at_q = row * a.ld_q + head * a.d;
      float query[kWide], d_o[kWide], o[kWide], dq[kWide] = {};
      columns.read(x.o + at_o, o);
      columns.read(x.d_o + at_o, d_o);
      columns.operands(x.q + at_q, query);
      // rowsum(do o) is over all keys, of which ring attention has some here: so from o, not from p.
      const float delta = columns.dot(o, d_o), lse = x.lse[(at.batch * a.heads + head) * a.tq + i];
#pragma unroll
      for (int w = 0; w < kWide; ++w) d_o[w] = columns.operand(d_o[w]);
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        if (j >= tk) continue;
        const float score = columns.dot(query, key[j]), dp = columns.dot(d_o, value[j]);
        const bool seen = sees(a, i, j);
        const float p = seen ? expf((score + more_of(a, head, i, j)) * a.scale - lse) : 0.0f;
        const float weight = columns.operand(p);
        const float slope = seen ? columns.operand(p * (dp - delta) * a.scale) : 0.0f;
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          dq[w] = fmaf(slope, key[j][w], dq[w]);
          dk[j][w] = fmaf(slope, query[w], dk[j][w]);
          dv[j][w] = fmaf(weight, d_o[w], dv[j][w]);
        }
      }
      columns.write(x.dq + at_q, dq);
    }
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    if (j >= tk) continue;
    columns.write(x.dk + row_of_key(j), dk[j]);
    columns.write(x.dv + row_of_key(j), dv[j]);
  }
}

// f(keys, columns a lane, packed), each a constant
template <class F>
void by_shape(const Attention& a, bool packed, F&& f) {
  const auto with_keys = [&](auto wide) {
    by_flag(packed, [&](auto whole) {
      a.tk <= 4 ? f(std::integral_constant<int, 4>(), wide, whole)
                : f(std::integral_constant<int, static_cast<int>(kFewTokens)>(), wide, whole);
    });
  };
  a.d <= 32 ? with_keys(std::integral_constant<int, 1>()) : with_keys(std::integral_constant<int, 2>());
}

template <class... P>
bool rows_in_pairs(const Attention& a, const P*... p) {
  return a.d % 2 == 0 && a.ld_q % 2 == 0 && a.ld_kv % 2 == 0 && a.ld_o % 2 == 0 && on_16_bytes(p...);
}

}  // namespace

void attention_few(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                   cudaStream_t stream) {
  if (a.batch * a.kv_heads == 0) return;
  by_type(a.act, [&](auto type) {
    using T = decltype(type);
    by_shape(a, rows_in_pairs(a, q, k, v, o), [&](auto keys, auto wide, auto packed) {
      launch(few_kernel<T, keys(), wide(), packed()>, grid(ceil_div(a.batch * a.kv_heads, kBlockWarps)),
             kThreads, 0, stream, a, q, k, v, o, lse);
    });
  });
}

void attention_few_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                            const float* lse, const void* d_o, void* dq, void* dk, void* dv,
                            cudaStream_t stream) {
  if (a.batch * a.kv_heads == 0) return;
  by_type(a.act, [&](auto type) {
    using T = decltype(type);
    const auto x = backward_operands<T>(q, k, v, o, d_o, lse, nullptr, dq, dk, dv);
    by_shape(a, rows_in_pairs(a, q, k, v, o, d_o, dq, dk, dv), [&](auto keys, auto wide, auto packed) {
      launch(few_backward_kernel<T, keys(), wide(), packed()>,
             grid(ceil_div(a.batch * a.kv_heads, kBlockWarps)), kThreads, 0, stream, a, x);
    });
  });
}

}  // namespace isobar::cuda
