// Any archive, or what is chosen of it, as another: a net's training reads one field at a time, and an
// archive whose chunks hold a hundred steps decodes all of them for each.
//
//   convert("era5.nc", choice, "era5.zarr", {.format = "zarr3"});     // throws ConfigError
#pragma once
#include <string>

#include "model/data/zarr_writer.h"

namespace isobar {

struct ConvertOptions {
  std::string format = "zarr2";  // zarr2 | zarr3 | hdf5 (the NERSC layout) | netcdf4 | netcdf3
  ZarrLayout chunks;             // Zarr alone
  bool show_progress = false;
};

/// What is missing stays missing, but for HDF5, which has no room for it. `path` is read in a child
/// (foreign.h).
void convert(const std::string& path, const FieldChoice& choice, const std::string& out,
             const ConvertOptions& options);

}  // namespace isobar
