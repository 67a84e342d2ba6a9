// A synthetic atmosphere in the NERSC layout, for tests, demos and benchmarks without ERA5.
//
// Every channel is a sum of spherical-harmonic waves that share one set of Rossby-Haurwitz phase speeds and
// slowly varying amplitudes, on top of a latitude profile, a seasonal and a diurnal cycle; winds derive from
// the stream function. So state t determines state t + dt, and a net can learn to beat persistence.
//
//   make_synthetic("data/synthetic", {.samples_per_year = 40, .height = 32, .width = 64});
//   -> train/2015.h5 train/2016.h5 valid/2017.h5 test/2018.h5 stats/{global_means,global_stds,time_means}.npy
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/data/dataset.h"

namespace isobar::data {

struct SyntheticOptions {
  int64_t train_years = 2, valid_years = 1, test_years = 1, first_year = 2015;
  int64_t samples_per_year = 1460;  // six-hourly
  int64_t channels = 20, height = 360, width = 720;
  uint64_t seed = 0;
  int deflate = 0;     // 0 = contiguous, like NERSC's files; 1-9 = chunks of one field, shuffle + deflate
  bool force = false;  // overwrite another set
  bool show_progress = false;
};

/// Writes the set; keeps finished files of an interrupted call with the same options. Throws ConfigError:
/// directory holds another set, disk too small, impossible options.
void make_synthetic(const std::string& dir, const SyntheticOptions& options);

/// The names of FourCastNet's channels for 20 channels, else c0, c1, …
std::vector<std::string> default_channel_names(int64_t channels);

/// The fields, on a grid of latitude bands from north to south and meridians from 0 degrees east.
class SyntheticAtmosphere {
 public:
  SyntheticAtmosphere(FieldShape shape, uint64_t seed);
  ~SyntheticAtmosphere();
  void at(double hour, float* out) const;  // hours since 1 January of the first year; out [C,H,W]
  std::vector<std::string> names() const, units() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobar::data
