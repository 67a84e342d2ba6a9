// GELU, exact: u Phi(u), and its slope Phi(u) + u phi(u). In f32 by erfcf; for 16-bit activations by
// Abramowitz & Stegun 7.1.26 (|error| <= 8e-8 in Phi), which keeps the kernels bound by memory.
#pragma once
#include "model/backend/cuda/pack.cuh"

namespace isobar::cuda {

template <class T>
__device__ inline void normal_tail(float u, float* tail, float* gauss) {  // Phi(-|u|), exp(-u^2 / 2)
  if constexpr (sizeof(T) == 4) {
    *tail = 0.5f * erfcf(fabsf(u) * 0.70710678f);
    *gauss = expf(-0.5f * u * u);
  } else {
    const float t = __fdividef(1.0f, fmaf(fabsf(u), 0.3275911f * 0.70710678f, 1.0f));
    const float e = exp2f(fmaxf(-0.72134752f * u * u, -200.0f));
    float p = fmaf(0.5f * 1.061405429f, t, 0.5f * -1.453152027f);
    p = fmaf(p, t, 0.5f * 1.421413741f);
    p = fmaf(p, t, 0.5f * -0.284496736f);
    p = fmaf(p, t, 0.5f * 0.254829592f);
    *tail = p * t * e;
    *gauss = e;
  }
}

template <class T>
__device__ inline float gelu_of(float u) {
  float tail, gauss;
  normal_tail<T>(u, &tail, &gauss);
  return fmaxf(u, 0.0f) - fabsf(u) * tail;
}

template <class T>
__device__ inline float gelu_slope(float u) {
  float tail, gauss;
  normal_tail<T>(u, &tail, &gauss);
  return fmaf(u * 0.39894228f, gauss, u < 0 ? tail : 1.0f - tail);
}

}  // namespace isobar::cuda
