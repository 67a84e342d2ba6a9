// The netCDF library takes some paths for addresses ("http://host/x.nc", "file://x#mode=zarr",
// "[mode=nczarr]x") and others for those of Windows or MSYS ("c:x.nc"), and would open a connection or
// another file than the one that is there.
//
//   nc_open(netcdf_path("http://host/x.nc").c_str(), …)     // the file x.nc in the folder http:/host
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>

namespace isobar::data {

/// The same file by a path from the root with single slashes, which the library takes as it is.
inline std::string netcdf_path(const std::string& path) {
  std::string out = std::filesystem::absolute(path).string();
  const auto both = [](char a, char b) { return a == '/' && b == '/'; };
  out.erase(std::unique(out.begin(), out.end(), both), out.end());
  return out;
}

}  // namespace isobar::data
