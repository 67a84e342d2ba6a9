// Activations and their slopes. Exact GELU: u Phi(u), and Phi(u) + u phi(u); gelu_tanh: Phi(u) = (1 + tanh z)
// / 2, z = sqrt(2 / pi) (u + 0.044715 u^3), as in cuBLASLt's epilogue. Exact GELU uses erfcf in f32, and
// Abramowitz & Stegun 7.1.26 (|error| <= 8e-8 in Phi) for 16-bit activations, so that kernels stay
// memory-bound.
#pragma once
#include <stdexcept>

#include "model/backend/cuda/kernels/pack.cuh"
#include "model/base/activation.h"

namespace isobar::cuda {

// Phi(-|u|), and sqrt(2 pi) times its slope: exp(-u^2 / 2) for exact GELU
template <class T, bool kTanh>
__device__ inline void gelu_tail(float u, float* tail, float* gauss) {
  if constexpr (kTanh) {
    const float square = u * u;  // e = exp(-2 |z|)
    const float e = exp2f(fmaxf(-2.3022082f * fabsf(u) * fmaf(square, 0.044715f, 1.0f), -200.0f));
    const float head = sizeof(T) == 4 ? 1.0f / (1.0f + e) : __fdividef(1.0f, 1.0f + e);
    *tail = e * head;
    *gauss = 4.0f * *tail * head * fmaf(square, 0.134145f, 1.0f);
  } else if constexpr (sizeof(T) == 4) {
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

// exp(-|u|) / (1 + exp(-|u|)), the logistic function's tail
template <class T>
__device__ inline float logistic_tail(float u) {
  const float e = exp2f(fmaxf(-1.44269504f * fabsf(u), -200.0f));
  return sizeof(T) == 4 ? e / (1.0f + e) : __fdividef(e, 1.0f + e);
}

template <class T, Activation kF>
__device__ inline float activation_of(float u) {
  if constexpr (kF == Activation::relu) {
    return u <= 0.0f ? 0.0f : u;  // NaN stays NaN
  } else if constexpr (kF == Activation::tanh) {
    return tanhf(u);
  } else {  // u F(u) = max(u, 0) - |u| F(-|u|)
    float tail, gauss;
    if constexpr (kF == Activation::silu)
      tail = logistic_tail<T>(u);
    else
      gelu_tail<T, kF == Activation::gelu_tanh>(u, &tail, &gauss);
    return fmaxf(u, 0.0f) - fabsf(u) * tail;
  }
}

template <class T, Activation kF>
__device__ inline float slope_of(float u) {
  if constexpr (kF == Activation::relu) {
    return u <= 0.0f ? 0.0f : 1.0f;
  } else if constexpr (kF == Activation::tanh) {
    const float tail = logistic_tail<T>(2.0f * u);
    return 4.0f * tail * (1.0f - tail);  // 1 - tanh(u)^2
  } else if constexpr (kF == Activation::silu) {
    const float tail = logistic_tail<T>(u);
    return fmaf(u * tail, 1.0f - tail, u < 0 ? tail : 1.0f - tail);
  } else {
    float tail, gauss;
    gelu_tail<T, kF == Activation::gelu_tanh>(u, &tail, &gauss);
    return fmaf(u * 0.39894228f, gauss, u < 0 ? tail : 1.0f - tail);
  }
}

/// f(std::integral_constant) of the function `a`
template <class F>
void by_activation(Activation a, F&& f) {
  switch (a) {
    case Activation::gelu:
      return f(std::integral_constant<Activation, Activation::gelu>());
    case Activation::gelu_tanh:
      return f(std::integral_constant<Activation, Activation::gelu_tanh>());
    case Activation::relu:
      return f(std::integral_constant<Activation, Activation::relu>());
    case Activation::silu:
      return f(std::integral_constant<Activation, Activation::silu>());
    case Activation::tanh:
      return f(std::integral_constant<Activation, Activation::tanh>());
  }
  throw std::logic_error("no such activation");
}

}  // namespace isobar::cuda
