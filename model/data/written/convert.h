// Converts an archive, or a selection of it, to another format or chunking. Training reads single steps, and
// an archive whose chunks hold a hundred steps decodes all of them for each.
//
//   convert("era5.nc", choice, "era5.zarr", {.format = "zarr3"});     // throws ConfigError
#pragma once
#include <string>

#include "model/data/files/zarr/zarr_writer.h"

namespace isobar::data {

struct ConvertOptions {
  std::string format = "zarr2";  // zarr2 | zarr3 | hdf5 (the NERSC layout) | netcdf4 | netcdf3
  ZarrLayout chunks;             // Zarr only
  bool show_progress = false;
};

/// Missing values stay missing, except in the NERSC layout, which has none. `path` is read in a child process
/// (foreign.h).
void convert(const std::string& path, const FieldChoice& choice, const std::string& out,
             const ConvertOptions& options);

}  // namespace isobar::data
