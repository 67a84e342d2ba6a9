// An n-dimensional numeric array in a file, of which many threads read slabs. Implemented for HDF5 and
// netCDF-4 (Hdf5Array), netCDF-3, Zarr, .npz and GRIB.
//
//   array->read({t, 0, 0, 0}, {1, C, H, W}, out);   // C order, element() as in the file, native endianness
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/data/files/element.h"

namespace isobar::data {

using Index = std::vector<int64_t>;

/// An error within an array; the reader of fields adds file, time step and channel and throws ConfigError.
struct ArrayError : std::runtime_error {
  ArrayError(const std::string& what, std::string mend_) : std::runtime_error(what), mend(std::move(mend_)) {}
  std::string mend;
};

struct StorageLayout {
  std::string element;  // f32, i16, …
  std::string storage;  // contiguous, chunked, records, other
  bool big_endian = false;
  Index chunk;                       // {} unless chunked
  std::vector<std::string> filters;  // in write order
  std::string locked_because;        // "" = threads read and decode in parallel
  bool parallel() const { return locked_because.empty(); }
};

/// Reports that `n` elements from index `first` have been read and are in cache. `swapped`: their bytes are
/// still in the file's order, which is not the machine's.
using Arrived = std::function<void(int64_t first, int64_t n, bool swapped)>;

class RawArray {
 public:
  virtual ~RawArray() = default;
  virtual const Index& dims() const = 0;
  virtual Element element() const = 0;
  virtual Index chunk() const { return {}; }  // {} when contiguous
  /// The layout of the bytes in the file.
  virtual StorageLayout layout() const = 0;
  /// Reads prod(count) elements; thread-safe. Throws ArrayError.
  virtual void read(const Index& start, const Index& count, void* out) const = 0;
  /// Like read(), and reports every element once, in order, so that the caller can process elements while
  /// they are in cache.
  virtual void read_in_pieces(const Index& start, const Index& count, void* out,
                              const Arrived& arrived) const {
    read(start, count, out);
    int64_t n = 1;
    for (const int64_t c : count) n *= c;
    arrived(0, n, false);
  }
  /// Has the HDF5 library do what a later read needs: walk the chunk index or, for data that the library
  /// decodes, read up to about `most_bytes`, spread over the first axis. Calls `alive` repeatedly; throws
  /// ArrayError.
  virtual void try_library(int64_t most_bytes, const std::function<void()>& alive) const {
    (void)most_bytes, (void)alive;
  }
};

/// A variable of a classic netCDF file. Throws ArrayError: no such variable, truncated.
std::unique_ptr<RawArray> classic_array(const std::string& file, const std::string& name);

}  // namespace isobar::data
