// A synthetic ocean file and atmosphere file, from whose points an mlp can learn the ice concentration, for
// tests and demos of training on gridded fields (point_files.h).
//
// Air is the synthetic atmosphere of synth.h, water another one that evolves ten times as slowly. Ice forms
// on cold water; its concentration is a logistic function of thickness, surface temperature, salinity and
// wind, with a little noise. Land is _FillValue in the ocean file. Variables are packed: shorts with
// scale_factor and add_offset over [time, lat, lon].
//
//   make_points("data/points", {.steps = 8, .height = 24, .width = 48});
//   -> data/points/ocean.nc       sst sss tsfc hi hs sice uocn vocn aice
//      data/points/atmosphere.nc  tair uatm vatm qref flwdn fswdn
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar::data {

struct PointsOptions {
  int64_t steps = 20;               // six-hourly
  int64_t height = 32, width = 64;  // latitudes from north to south, longitudes from 0 degrees east
  uint64_t seed = 0;                // the same seed gives the same files
  bool force = false;               // overwrite other files
  bool show_progress = false;
};

/// The inputs of the ice emulator, in order.
std::vector<std::string> points_inputs();

/// Throws ConfigError: impossible options, existing files without `force`, directory not writable.
void make_points(const std::string& dir, const PointsOptions& options);

}  // namespace isobar::data
