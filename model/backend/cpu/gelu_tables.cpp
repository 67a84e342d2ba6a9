#include "model/backend/cpu/gelu_tables.h"

#include <cmath>

namespace isobar::cpu {
namespace {

// The polynomial through f at Chebyshev nodes around `centre`, by Newton's divided differences
template <class F, int kDegree>
void fit_segment(const F& f, double centre, int segment, SegmentTable<kDegree>& table) {
  constexpr int kNodes = kDegree + 1;
  double at[kNodes], difference[kNodes], sum[kNodes] = {};
  for (int i = 0; i < kNodes; ++i) {
    at[i] = static_cast<double>(kSegmentSpacing) / 2 * std::cos(M_PI * (i + 0.5) / kNodes);
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

template <int kDegree, class F>
SegmentTable<kDegree> table_of(const F& f) {
  SegmentTable<kDegree> t{};
  for (int s = 0; s + 1 < kSegments; ++s) fit_segment(f, static_cast<double>(kSegmentSpacing) * s, s, t);
  return t;
}

double normal_tail(double a) {
  return 0.5 * std::erfc(a / std::sqrt(2.0));
}

}  // namespace

template <int kDegree>
const SegmentTable<kDegree>& normal_tail_table() {
  static const auto table = table_of<kDegree>(normal_tail);
  return table;
}

template <int kDegree>
const SegmentTable<kDegree>& gelu_slope_table() {
  static const auto table = table_of<kDegree>(
      [](double a) { return normal_tail(a) - a * std::exp(-a * a / 2) / std::sqrt(2 * M_PI); });
  return table;
}

template const SegmentTable<kFineDegree>& normal_tail_table();
template const SegmentTable<kFineDegree>& gelu_slope_table();
template const SegmentTable<kCoarseDegree>& normal_tail_table();
template const SegmentTable<kCoarseDegree>& gelu_slope_table();

}  // namespace isobar::cpu
