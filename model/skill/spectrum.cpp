#include "model/skill/spectrum.h"

#include <complex>
#include <unsupported/Eigen/FFT>

namespace isobar::skill {

ZonalSpectrum::ZonalSpectrum(int64_t channels, std::vector<double> rows, int64_t width)
    : channels_(channels),
      width_(width),
      rows_(std::move(rows)),
      sums_(static_cast<size_t>(channels * (width / 2 + 1))) {}

void ZonalSpectrum::add(const float* field) {
  const auto height = static_cast<int64_t>(rows_.size()), waves = width_ / 2 + 1;
  const auto points = static_cast<double>(width_);
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < channels_; ++c) {
    Eigen::FFT<double> fft;
    std::vector<double> row(static_cast<size_t>(width_));
    std::vector<std::complex<double>> waves_of_row;
    for (int64_t y = 0; y < height; ++y) {
      const float* from = field + (c * height + y) * width_;
      row.assign(from, from + width_);
      fft.fwd(waves_of_row, row);
      const double weight = rows_[static_cast<size_t>(y)] / static_cast<double>(height) / (points * points);
      for (int64_t k = 0; k < waves; ++k)
        sums_[static_cast<size_t>(c * waves + k)] +=
            (k == 0 || 2 * k == width_ ? 1 : 2) * weight * std::norm(waves_of_row[static_cast<size_t>(k)]);
    }
  }
  ++fields_;
}

std::vector<double> ZonalSpectrum::power(int64_t channel) const {
  const int64_t waves = width_ / 2 + 1;
  std::vector<double> out(sums_.begin() + channel * waves, sums_.begin() + (channel + 1) * waves);
  for (double& x : out) x /= static_cast<double>(fields_);
  return out;
}

}  // namespace isobar::skill
