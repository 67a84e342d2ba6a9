// Sources of the bytes of HDF5 datasets. A file can name others, anywhere, whose bytes pass for its own:
// external links, external storage, virtual datasets. A foreign file must not choose what is read here, so
// the first two are refused and the third may name files in its own folder and below.
//
//   const LibraryLock lock(path);
//   require_own_bytes(path);                          // ArrayError, before any library follows a name
#pragma once
#include <hdf5.h>

#include <string>

namespace isobar::data {

/// "an external link to FILE" where the link is one, else "".
std::string external_link(hid_t place, const char* name, const H5L_info_t& link);

/// Checks all objects of a file, and the files that its virtual datasets map. Needs LibraryLock.
void require_own_bytes(const std::string& path);

/// Checks one dataset, and the files that it maps. Needs LibraryLock.
void require_own_bytes(hid_t set, const std::string& path, const std::string& name);

}  // namespace isobar::data
