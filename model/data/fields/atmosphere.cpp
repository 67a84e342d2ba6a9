// The fields of the synthetic atmosphere; synth.cpp writes them to files.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/base/rng.h"
#include "model/data/synthetic/synth.h"

namespace isobar::data {

namespace {

constexpr double kPi = std::numbers::pi;
constexpr int64_t kWaves = 16;       // zonal wavenumbers 1 … 16, fewer on a coarse grid
constexpr int64_t kMeridional = 6;   // degrees n = m … m + 5 of each
constexpr double kOmega = 7.292e-5;  // rotation of the earth, rad/s
constexpr double kDrift = 2.4e-6;    // mean westerly wind as angular speed, rad/s (15 m/s at the equator)

enum Shape { stream, zonal, meridional };  // P, -dP/dlat, m P / cos(lat)

struct Channel {
  const char *name, *units;
  Shape shape;
  double equator, pole;      // mean at either latitude
  double wave;               // amplitude of the waves
  double diurnal, seasonal;  // amplitudes
  double tilt;               // westward shift of the waves against the 500 hPa geopotential, rad
};

// FourCastNet's list, in its order, with roughly ERA5's magnitudes.
constexpr Channel kChannels[] = {
    {"u10", "m s**-1", zonal, -3, 1, 4, 0.2, 0, 0.6},
    {"v10", "m s**-1", meridional, 0, 0, 4, 0.3, 0, 0.6},
    {"t2m", "K", stream, 299, 250, 6, 2.5, 12, 1.2},
    {"sp", "Pa", stream, 97500, 95000, 900, 60, 0, 0.7},
    {"msl", "Pa", stream, 101100, 100800, 1000, 60, 0, 0.7},
    {"t850", "K", stream, 290, 255, 5, 0.6, 8, 0.9},
    {"u1000", "m s**-1", zonal, -3.3, 1.2, 4.4, 0.2, 0, 0.57},
    {"v1000", "m s**-1", meridional, 0, 0, 4.4, 0.3, 0, 0.57},
    {"z1000", "m**2 s**-2", stream, 900, 700, 800, 40, 0, 0.7},
    {"u850", "m s**-1", zonal, -2, 4, 6, 0.1, 0, 0.4},
    {"v850", "m s**-1", meridional, 0, 0, 5, 0.1, 0, 0.4},
    {"z850", "m**2 s**-2", stream, 14800, 13000, 900, 30, 200, 0.5},
    {"u500", "m s**-1", zonal, 1, 10, 9, 0, 0, 0},
    {"v500", "m s**-1", meridional, 0, 0, 8, 0, 0, 0},
    {"z500", "m**2 s**-2", stream, 57300, 50000, 1500, 20, 700, 0},
    {"t500", "K", stream, 267, 237, 4, 0.1, 4, 0.5},
    {"z50", "m**2 s**-2", stream, 202000, 193000, 1800, 20, 3000, -0.6},
    {"r500", "%", stream, 45, 55, 11, 1, 0, 2.2},
    {"r850", "%", stream, 62, 60, 9, 2, 0, 1.9},
    {"tcwv", "kg m**-2", stream, 42, 5, 5, 0.3, 2, 1.5},
};
constexpr int64_t kKnown = std::size(kChannels);

struct Wave {
  double amplitude, phase, speed;  // rad, rad/hour
  double pulse, pulse_phase;       // slow growth and decay: rad/hour, rad
};

/// Normalised associated Legendre functions P[n - m] at sin(lat), n = m … m + kMeridional - 1 (stable
/// recurrence).
void legendre(int64_t m, double lat, double* p) {
  const double x = std::sin(lat), c = std::cos(lat);
  double pmm = std::sqrt(0.5);
  for (int64_t k = 1; k <= m; ++k) pmm *= c * std::sqrt((2.0 * k + 1) / (2.0 * k));
  p[0] = pmm;
  p[1] = x * std::sqrt(2.0 * m + 3) * pmm;
  for (int64_t n = m + 2; n < m + kMeridional; ++n) {
    const double nn = n, mm = m;
    const double a = std::sqrt((4 * nn * nn - 1) / (nn * nn - mm * mm));
    const double b = std::sqrt(((nn - 1) * (nn - 1) - mm * mm) / (4 * (nn - 1) * (nn - 1) - 1));
    p[n - m] = a * (x * p[n - m - 1] - b * p[n - m - 2]);
  }
}

/// row[j] += sum_k coefficient[k] * basis[k][j], four basis functions per pass over the row.
void add_waves(const float* coefficient, const float* basis, int64_t n, int64_t width, float* row) {
  for (int64_t k = 0; k < n; k += 4) {
    const float *b = basis + k * width, *c = coefficient + k;
    for (int64_t j = 0; j < width; ++j)
      row[j] += (c[0] * b[j] + c[1] * b[width + j]) + (c[2] * b[2 * width + j] + c[3] * b[3 * width + j]);
  }
}

}  // namespace

std::vector<std::string> default_channel_names(int64_t channels) {
  std::vector<std::string> names;
  for (int64_t c = 0; c < channels; ++c)
    names.push_back(channels == kKnown ? kChannels[c].name : "c" + std::to_string(c));
  return names;
}

struct SyntheticAtmosphere::Impl {
  FieldShape shape;
  int64_t used;  // zonal wavenumbers that the grid resolves with at least six points; even, for add_waves
  Wave waves[kWaves][kMeridional] = {};
  std::vector<double> latitude;    // [H] rad, centres of bands, north to south
  std::vector<double> profile[3];  // [H][kWaves][kMeridional] by Shape
  std::vector<float> basis;        // [2 kWaves][W]: cos(m lon), sin(m lon)

  Impl(FieldShape s, uint64_t seed) : shape(s), used(std::clamp<int64_t>(s.width / 12 * 2, 2, kWaves)) {
    double power = 0;
    for (int64_t m = 1; m <= used; ++m)
      for (int64_t k = 0; k < kMeridional; ++k) {
        const double n = static_cast<double>(m + k), id = static_cast<double>(m * kMeridional + k);
        const auto stream_id = static_cast<uint64_t>(id);
        Wave& w = waves[m - 1][k];
        w.amplitude = (0.5 + uniform(seed, stream_id, 0)) * std::pow(1 + n / 6, -2.0);
        w.phase = 2 * kPi * uniform(seed, stream_id, 1);
        w.speed =
            3600 * static_cast<double>(m) *
            (kDrift * (0.8 + 0.4 * uniform(seed, stream_id, 2)) - 2 * kOmega / ((n + 2) * (n + 3)) * 0.25);
        w.pulse = 2 * kPi / (24 * (4 + 10 * uniform(seed, stream_id, 3)));
        w.pulse_phase = 2 * kPi * uniform(seed, stream_id, 4);
        power += w.amplitude * w.amplitude / 4;  // mean of cos^2, and of P^2 = 1/2
      }
    for (auto& row : waves)
      for (Wave& w : row) w.amplitude /= std::sqrt(power);

    for (int64_t i = 0; i < s.height; ++i)
      latitude.push_back(kPi / 2 - kPi * (static_cast<double>(i) + 0.5) / static_cast<double>(s.height));
    for (auto& p : profile) p.resize(s.height * kWaves * kMeridional);
    for (int64_t i = 0; i < s.height; ++i)
      for (int64_t m = 1; m <= kWaves; ++m) {
        constexpr double h = 1e-4;
        double p[kMeridional], above[kMeridional], below[kMeridional];
        legendre(m, latitude[i], p);
        legendre(m, latitude[i] + h, above);
        legendre(m, latitude[i] - h, below);
        for (int64_t k = 0; k < kMeridional; ++k) {
          const int64_t at = (i * kWaves + m - 1) * kMeridional + k;
          profile[stream][at] = p[k];
          profile[zonal][at] = -(above[k] - below[k]) / (2 * h) / 5;  // /5: winds of unit variance, roughly
          profile[meridional][at] = static_cast<double>(m) * p[k] / std::cos(latitude[i]) / 5;
        }
      }
    basis.resize(2 * kWaves * s.width);
    for (int64_t m = 1; m <= kWaves; ++m)
      for (int64_t j = 0; j < s.width; ++j) {
        const double a = 2 * kPi * static_cast<double>(m * j) / static_cast<double>(s.width);
        basis[(2 * m - 2) * s.width + j] = static_cast<float>(std::cos(a));
        basis[(2 * m - 1) * s.width + j] = static_cast<float>(std::sin(a));
      }
  }

  void channel(int64_t c, double hour, float* out) const {
    const Channel& spec = kChannels[c % kKnown];
    const int64_t turn = c / kKnown;  // number of passes over the list of channels
    const double tilt = spec.tilt + 0.3 * static_cast<double>(turn);
    double cosine[kWaves][kMeridional], sine[kWaves][kMeridional];
    for (int64_t m = 0; m < kWaves; ++m)
      for (int64_t k = 0; k < kMeridional; ++k) {
        const Wave& w = waves[m][k];
        const double a = spec.wave * w.amplitude * (1 + 0.5 * std::cos(w.pulse * hour + w.pulse_phase));
        // The meridional wind is the eastward derivative of the stream function: a quarter wave ahead.
        const double theta = w.phase + w.speed * hour - tilt + (spec.shape == meridional ? -kPi / 2 : 0);
        cosine[m][k] = a * std::cos(theta);
        sine[m][k] = a * std::sin(theta);
      }
    const double day = 2 * kPi * hour / 24, year = 2 * kPi * hour / 8760;
    for (int64_t i = 0; i < shape.height; ++i) {
      const double s = std::sin(latitude[i]), cos_lat = std::cos(latitude[i]);
      float coefficient[2 * kWaves];
      const double* p = &profile[spec.shape][i * kWaves * kMeridional];
      for (int64_t m = 0; m < kWaves; ++m) {
        double a = 0, b = 0;
        for (int64_t k = 0; k < kMeridional; ++k) {
          a += p[m * kMeridional + k] * cosine[m][k];
          b += p[m * kMeridional + k] * sine[m][k];
        }
        coefficient[2 * m] = static_cast<float>(a);
        coefficient[2 * m + 1] = static_cast<float>(b);
      }
      // Warmest three hours after local noon: cos(day + lon - pi - pi/4), a wave of m = 1 that moves west.
      const double phase = day - 1.25 * kPi;
      coefficient[0] += static_cast<float>(spec.diurnal * cos_lat * std::cos(phase));
      coefficient[1] -= static_cast<float>(spec.diurnal * cos_lat * std::sin(phase));
      const double mean =
          spec.equator + (spec.pole - spec.equator) * s * s - spec.seasonal * s * std::cos(year);
      float* row = out + i * shape.width;
      std::fill(row, row + shape.width, static_cast<float>(mean));
      add_waves(coefficient, basis.data(), 2 * used, shape.width, row);
    }
  }
};

SyntheticAtmosphere::SyntheticAtmosphere(FieldShape shape, uint64_t seed)
    : impl_(std::make_unique<Impl>(shape, seed)) {}
SyntheticAtmosphere::~SyntheticAtmosphere() = default;

void SyntheticAtmosphere::at(double hour, float* out) const {
  const FieldShape s = impl_->shape;
  for (int64_t c = 0; c < s.channels; ++c) impl_->channel(c, hour, out + c * s.height * s.width);
}

std::vector<std::string> SyntheticAtmosphere::names() const {
  std::vector<std::string> out;
  for (int64_t c = 0; c < impl_->shape.channels; ++c)
    out.push_back(c < kKnown ? kChannels[c].name : "c" + std::to_string(c));
  return out;
}

std::vector<std::string> SyntheticAtmosphere::units() const {
  std::vector<std::string> out;
  for (int64_t c = 0; c < impl_->shape.channels; ++c) out.emplace_back(kChannels[c % kKnown].units);
  return out;
}

}  // namespace isobar::data
