// The lock around every call into the HDF5 and netCDF C libraries. netCDF is not thread-safe, and HDF5 only
// if built so; raw reads and decoding need no lock.
//
//   const LibraryLock lock(path);        // while the library works on that file
//
// The libraries may crash on damaged files. A child process tries the files first
// (model/data/files/foreign.h), but cannot read all that a run will read. So while a lock names a file, a
// fatal signal in its thread prints the error message for that file and exits with code 2; signals in other
// threads go to the previous handlers.
#pragma once
#include <mutex>
#include <string>

namespace isobar::data {

class LibraryLock {
 public:
  /// Also turns off HDF5's printing of errors in this thread. `file`: "" for files that this program writes.
  explicit LibraryLock(const std::string& file = "");
  ~LibraryLock();
  LibraryLock(const LibraryLock&) = delete;
  LibraryLock& operator=(const LibraryLock&) = delete;

 private:
  std::lock_guard<std::mutex> guard_;
  bool armed_ = false;
};

}  // namespace isobar::data
