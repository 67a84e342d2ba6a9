// The lock around every call into the HDF5 and netCDF C libraries. Neither is safe to enter from two threads
// unless HDF5 was built so, and netCDF never is; raw reads and decoding happen outside of it.
//
//   const LibraryLock lock(path);        // the library is at work on that file
//
// Damaged files make the libraries end in a signal. They are read in a child first (model/data/foreign.h);
// but what a run reads for days is more than a child can try out before. So while a lock names a file, a
// signal that its thread causes ends the process with the one line that a refusal of the file would have
// been, and exit code 2. Signals of other threads go where they went before.
#pragma once
#include <mutex>
#include <string>

namespace isobar {

class LibraryLock {
 public:
  /// Also silences HDF5's own printing of errors on this thread. `file`: "" for what this program writes.
  explicit LibraryLock(const std::string& file = "");
  ~LibraryLock();
  LibraryLock(const LibraryLock&) = delete;
  LibraryLock& operator=(const LibraryLock&) = delete;

 private:
  std::lock_guard<std::mutex> guard_;
  bool armed_ = false;
};

}  // namespace isobar
