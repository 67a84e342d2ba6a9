// Piecewise polynomials of functions of a >= 0 that vanish for large a, around 0, 1/4, 1/2, … 31/4: GELU and
// its slope without division or exponential, where a register lookup holds the coefficients.
#pragma once

namespace isobar::cpu {

constexpr int kSegments = 32;  // two registers of 16 lanes hold one coefficient of all segments
constexpr float kSegmentSpacing = 0.25f;
template <int kDegree>
struct SegmentTable {
  // [i][s]: of (a - s / 4)^i. The last segment, where the functions are below 1e-12, is zero.
  alignas(64) float coefficients[kDegree + 1][kSegments];
};
constexpr int kFineDegree = 4;    // for f32 and f16
constexpr int kCoarseDegree = 3;  // for bf16, whose rounding error is 2e-3

/// Phi(-a), the tail of the normal distribution: GELU(u) = max(u, 0) - |u| Phi(-|u|).
/// In f32, of degree 4: |error| <= 5e-8 everywhere, relative 1.5e-7 up to a = 1 and 1e-4 up to 5; of degree
/// 3: |error| <= 1e-6, relative 5e-6 up to a = 1 and 4e-4 up to 4.
template <int kDegree>
const SegmentTable<kDegree>& normal_tail_table();
/// Phi(-a) - a exp(-a^2 / 2) / sqrt(2 pi): GELU'(-a), and 1 - GELU'(a). |error| <= 2e-7; of degree 3 5e-6.
template <int kDegree>
const SegmentTable<kDegree>& gelu_slope_table();

}  // namespace isobar::cpu
