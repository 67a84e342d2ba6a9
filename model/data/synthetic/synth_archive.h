// A synthetic archive like those of weather centres, for tests, demos and benchmarks: upper-air and
// single-level fields in two files on one time axis, with land, sea ice and missing values.
//
//   make_archive("data/archive", {.format = "netcdf4", .steps = 40});
//   -> data/archive/levels.nc   z u v t q on 13 levels: [time, level, latitude, longitude]
//                               (Zarr: z50 … q1000)
//      data/archive/single.nc   t2m u10 v10 msl, siconc and sst (missing on land, sst now and then at sea),
//                               lsm, ocean and orography without a time axis
//
// The fields are those of synth.h, so each state determines the next. The same seed gives the same archive.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar::data {

struct ArchiveOptions {
  std::string format = "netcdf4";   // netcdf4 | netcdf3 | zarr2 | zarr3
  int64_t steps = 40;               // six-hourly, from 2015-01-01
  int64_t height = 32, width = 64;  // latitudes from north to south, longitudes from 0 degrees east
  double missing = 0.02;            // share of sea points without sst at a step
  uint64_t seed = 0;
  bool force = false;  // overwrite another archive
  bool show_progress = false;
};

/// The pressure levels of WeatherBench 2 in hPa, from the top
const std::vector<int64_t>& archive_levels();

struct ArchivePaths {
  std::string levels, single;
};
/// Throws ConfigError: impossible options, existing files without `force`, directory not writable.
ArchivePaths make_archive(const std::string& dir, const ArchiveOptions& options);

}  // namespace isobar::data
