// Aurora's Fourier codes of numbers (Bodnar 2024, supplement B.2): half sines, half cosines of 2 pi x /
// lambda, with logarithmically spaced wavelengths; computed in double.
#pragma once
#include <cstdint>
#include <vector>

namespace isobar::nets::aurora {

struct Wavelengths {
  double shortest, longest;
};
constexpr Wavelengths kPositions{0.01, 720};            // degrees
constexpr Wavelengths kLeadTimes{1.0 / 60, 24 * 21.0};  // hours
constexpr Wavelengths kLevels{0.01, 1e5};               // hPa
constexpr Wavelengths kTimes{1, 24 * 365.25};           // hours since 1970
Wavelengths areas();                                    // square kilometres: the smallest patch … the earth

/// Writes `width` (even) numbers for x to `out`.
void fourier_code(double x, const Wavelengths& w, int64_t width, float* out);

/// Codes [rows * columns, width] of a grid's patches, whose first row and column are in degrees: of their
/// centres (half of the width latitude, half longitude), and of the root of their areas in km.
struct PatchGrid {
  double north, west, spacing;
  int64_t rows, columns, patch;  // patches north-south and east-west, points a side
  int64_t first = 0;             // first row of patches
  std::vector<float> positions(int64_t width) const;
  std::vector<float> areas(int64_t width) const;
};

}  // namespace isobar::nets::aurora
