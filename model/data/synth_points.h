// A synthetic pair of an ocean and an atmosphere file, on whose points an mlp can learn the ice
// concentration: for tests and demos of training on gridded fields (point_files.h) where no such data are at
// hand.
//
// The air is that of the synthetic atmosphere (synth.h), the water another of its kind that moves ten times
// as slowly. Ice lies where water is cold, near the poles; its concentration is a logistic function of
// thickness, surface temperature, salinity and wind, and a little noise. Land is _FillValue in the ocean
// file. Every variable is packed: shorts with scale_factor and add_offset over [time, lat, lon].
//
//   make_points("data/points", {.steps = 8, .height = 24, .width = 48});
//   -> data/points/ocean.nc       sst sss tsfc hi hs sice uocn vocn aice
//      data/points/atmosphere.nc  tair uatm vatm qref flwdn fswdn
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar {

struct PointsOptions {
  int64_t steps = 20;               // six-hourly
  int64_t height = 32, width = 64;  // latitudes from north to south, longitudes from 0 degrees east
  uint64_t seed = 0;                // one seed, one pair
  bool force = false;               // write over another pair
  bool show_progress = false;
};

/// The inputs of the emulator, in its order.
std::vector<std::string> points_inputs();

/// Throws ConfigError: impossible options, files are there and may not be replaced, the directory cannot be
/// written to.
void make_points(const std::string& dir, const PointsOptions& options);

}  // namespace isobar
