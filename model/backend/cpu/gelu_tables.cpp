#include "model/backend/cpu/gelu_tables.h"

#include <cmath>

namespace isobar::cpu {
namespace {

// The polynomial through f at Chebyshev's nodes around `centre`, by Newton's divided differences
template <class F>
void fit_segment(const F& f, double centre, int segment, SegmentTable& table) {
  constexpr int kNodes = SegmentTable::kDegree + 1;
  double at[kNodes], difference[kNodes], sum[kNodes] = {};
  for (int i = 0; i < kNodes; ++i) {
    at[i] = static_cast<double>(SegmentTable::kSpacing) / 2 * std::cos(M_PI * (i + 0.5) / kNodes);
    difference[i] = f(centre + at[i]);
  }
  for (int order = 1; order < kNodes; ++order)
    for (int i = kNodes - 1; i >= order; --i)
      difference[i] = (difference[i] - difference[i - 1]) / (at[i] - at[i - order]);
  for (int node = kNodes - 1; node >= 0; --node) {  // sum = sum (x - at[node]) + difference[node]
    for (int i = kNodes - 1; i > 0; --i) sum[i] = sum[i - 1] - sum[i] * at[node];
    sum[0] = difference[node] - sum[0] * at[node];
  }
  for (int i = 0; i < kNodes; ++i) table.coefficients[i][segment] = static_cast<float>(sum[i]);
}

template <class F>
SegmentTable table_of(const F& f) {
  SegmentTable t{};
  for (int s = 0; s + 1 < SegmentTable::kSegments; ++s)
    fit_segment(f, static_cast<double>(SegmentTable::kSpacing) * s, s, t);
  return t;
}

double normal_tail(double a) {
  return 0.5 * std::erfc(a / std::sqrt(2.0));
}

}  // namespace

const SegmentTable& normal_tail_table() {
  static const SegmentTable table = table_of(normal_tail);
  return table;
}

const SegmentTable& gelu_slope_table() {
  static const SegmentTable table =
      table_of([](double a) { return normal_tail(a) - a * std::exp(-a * a / 2) / std::sqrt(2 * M_PI); });
  return table;
}

}  // namespace isobar::cpu
