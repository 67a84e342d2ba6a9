// HDF5 identifiers that close themselves. Callers hold LibraryLock.
//
//   const Opened opened(file, name);                  // file and dataset, for the duration of a call
//   Handle space(H5Dget_space(opened.set.id), H5Sclose);
#pragma once
#include <hdf5.h>

#include <string>

#include "model/data/files/library_lock.h"
#include "model/data/files/netcdf/hdf5_array.h"

namespace isobar::data {

/// The innermost description on HDF5's error stack, which names the cause.
std::string hdf5_message();

/// The fix that an ArrayError of a damaged file advises.
inline constexpr const char* kDamagedFile = "the file is damaged: copy or make it again";

/// To open a file with, and to close: room for the whole index of a file of many chunks. With less, each walk
/// over it would read it from the file again.
hid_t metadata_access();

struct Handle {
  hid_t id;
  herr_t (*close)(hid_t);
  Handle(hid_t id_, herr_t (*close_)(hid_t)) : id(id_), close(close_) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id >= 0) close(id);
  }
};

/// Throws ArrayError when there is no such file or dataset, or a link leads to another file.
struct Opened {
  Handle access, file, set;  // `access` stays: closing it would clear the error of a failed open
  Opened(const std::string& path, const std::string& name);
};

}  // namespace isobar::data
