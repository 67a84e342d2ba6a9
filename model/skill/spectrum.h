// Zonal power spectra: a field's variance by wavenumber along a row. A net that blurs loses power at high
// wavenumbers, which the RMSE rewards.
//
//   ZonalSpectrum s(channels, row_weights(H, latitudes), W);
//   s.add(field);                 // [C, H, W]
//   s.power(c)[k]                 // mean over rows and fields, in squared units of the field
#pragma once
#include <cstdint>
#include <vector>

namespace isobar::skill {

class ZonalSpectrum {
 public:
  /// `rows` [H]: weights with mean 1
  ZonalSpectrum(int64_t channels, std::vector<double> rows, int64_t width);
  void add(const float* field);
  /// By wavenumber 0 … W / 2: |X_k|^2 / W^2, doubled where -k is distinct, so that powers of k > 0 add up to
  /// a row's variance (Parseval); mean over rows and fields.
  std::vector<double> power(int64_t channel) const;

 private:
  int64_t channels_, width_, fields_ = 0;
  std::vector<double> rows_;
  std::vector<double> sums_;  // [C][W / 2 + 1]
};

}  // namespace isobar::skill
