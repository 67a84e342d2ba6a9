// The larger of two errors, where NaN counts as the largest: std::max would drop it and the test would pass.
//
//   for (…) most = worst(most, std::abs(ours / theirs - 1));
#pragma once
#include <cmath>

namespace isobar {

inline double worst(double so_far, double error) {
  return std::isnan(so_far) || error <= so_far ? so_far : error;
}

}  // namespace isobar
