#include "model/nets/aurora/fourier.h"

#include <cmath>
#include <numbers>

namespace isobar::nets::aurora {
namespace {

constexpr double kDegree = std::numbers::pi / 180;

}  // namespace

// The smallest patch: 0.01 degrees a side at the pole of a sphere of 6,378.137 km, summed in the order of the
// published model's polygon. Codes of the shortest wavelengths depend on the last bits.
Wavelengths areas() {
  constexpr double kRadius = 6378137.0 / 1000, kSide = 0.01;
  const double side = kSide * kDegree, top = std::sin(90 * kDegree),
               bottom = std::sin((90 - kSide) * kDegree);
  const double sum = side * top - side * bottom - side * bottom + side * top;
  return {sum * kRadius * kRadius / 2, 4 * std::numbers::pi * kRadius * kRadius};
}

void fourier_code(double x, const Wavelengths& w, int64_t width, float* out) {
  const int64_t half = width / 2;
  const double first = std::log10(w.shortest), last = std::log10(w.longest);
  for (int64_t i = 0; i < half; ++i) {
    const double at = half > 1 ? static_cast<double>(i) / static_cast<double>(half - 1) : 0;
    const double angle = x * (2 * std::numbers::pi / std::pow(10.0, first + (last - first) * at));
    out[i] = static_cast<float>(std::sin(angle));
    out[half + i] = static_cast<float>(std::cos(angle));
  }
}

std::vector<float> PatchGrid::positions(int64_t width) const {
  std::vector<float> out(static_cast<size_t>(rows * columns * width));
  const double middle = static_cast<double>(patch - 1) / 2, step = static_cast<double>(patch);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const double latitude = north - spacing * (static_cast<double>(first + i / columns) * step + middle),
                 longitude =
                     std::fmod(west + spacing * (static_cast<double>(i % columns) * step + middle), 360);
    float* const at = out.data() + i * width;
    fourier_code(latitude, kPositions, width / 2, at);
    fourier_code(longitude, kPositions, width / 2, at + width / 2);
  }
  return out;
}

// In double: the published model subtracts the sines in float32, and the last bits, which differ by device,
// change the codes of the shortest wavelengths.
std::vector<float> PatchGrid::areas(int64_t width) const {
  std::vector<float> out(static_cast<size_t>(rows * columns * width));
  const Wavelengths lengths = aurora::areas();
  const double side = spacing * static_cast<double>(patch - 1) * kDegree;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const double top = (north - spacing * static_cast<double>((first + i / columns) * patch)) * kDegree;
    const double area = 6371.0 * 6371.0 * std::numbers::pi * (std::sin(top) - std::sin(top - side)) * side;
    fourier_code(std::sqrt(area), lengths, width, out.data() + i * width);
  }
  return out;
}

}  // namespace isobar::nets::aurora
