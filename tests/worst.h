// The largest of errors, among which a NaN is the worst: std::max would drop it, and a test of it pass.
//
//   for (…) most = worst(most, std::abs(ours / theirs - 1));
#pragma once
#include <cmath>

namespace isobar {

inline double worst(double so_far, double error) {
  return std::isnan(so_far) || error <= so_far ? so_far : error;
}

}  // namespace isobar
