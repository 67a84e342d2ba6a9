// A numeric dataset of an HDF5 or netCDF-4 file, readable by many threads in parallel.
//
// The HDF5 library serves one thread at a time, so it only supplies metadata (contiguous offset, chunk
// addresses, filters, element type); reading (pread) and decoding run in the calling thread without a lock.
// Datasets that this class cannot decode (szip, virtual or compact datasets, unusual number formats) are read
// by H5Dread under the library lock, which is slower; layout() reports which.
//
// No HDF5 handle outlives a call: netCDF opens the same files with another close degree, which HDF5 refuses
// while one is open.
//
//   Hdf5Array fields("2015.h5", "fields", std::make_shared<ChunkCache>(64 << 20));
//   fields.read({t, 0, 0, 0}, {1, C, H, W}, out);
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/base/system/files.h"
#include "model/data/fields/chunk_cache.h"
#include "model/data/fields/slab.h"
#include "model/data/files/chunk_walk.h"
#include "model/data/files/filters.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {

class Hdf5Array : public RawArray {
 public:
  /// Throws ArrayError: not HDF5, truncated, no such dataset, in another file, not numeric, larger than its
  /// file can hold. The library may crash on a damaged file, so foreign files are first read in a child
  /// (foreign.h).
  Hdf5Array(const std::string& file, const std::string& name, std::shared_ptr<ChunkCache> cache);

  const Index& dims() const override { return dims_; }
  Element element() const override { return element_; }
  Index chunk() const override { return chunk_; }
  StorageLayout layout() const override;
  void read(const Index& start, const Index& count, void* out) const override;
  void read_in_pieces(const Index& start, const Index& count, void* out,
                      const Arrived& arrived) const override;
  void try_library(int64_t most_bytes, const std::function<void()>& alive) const override;

  bool has_attribute(const std::string& name) const;
  /// Text attributes of the dataset: one string, or one per element of a string array; {} when there is none.
  std::vector<std::string> text_attribute(const std::string& name) const;

 private:
  struct Stored {  // location of a chunk
    uint64_t address = 0, bytes = 0;
    uint32_t skipped = 0;  // filter mask
    bool written = false;
  };
  void read_layout(int64_t file, int64_t set);
  void read_filters(int64_t set, int64_t dcpl);
  void read_fill(int64_t set, int64_t type, int64_t dcpl);
  void require_fill(const std::string& what) const;
  void require_all_of_compact(int64_t set, int64_t dcpl, int64_t element_bytes) const;
  void walk_index() const;
  void read_locked(const Index& start, const Index& count, void* out) const;
  void read_chunks(const Index& start, const Index& count, std::byte* out,
                   const BytesArrived& arrived = {}) const;
  Stored find_chunk(int64_t number) const;
  void look_up(int64_t number) const;
  Index origin_of(int64_t number) const;
  void decode(const Stored& chunk, std::byte* out) const;
  void fill(const ChunkPart& part, std::byte* out, const Index& out_strides,
            const BytesArrived& arrived) const;

  std::string file_, name_;
  std::shared_ptr<ChunkCache> cache_;
  InputFile input_;
  Index dims_, chunk_, grid_;  // grid_: number of chunks along each axis
  Element element_ = Element::f32;
  bool swap_ = false;    // file bytes are big-endian
  int64_t offset_ = -1;  // file offset of a contiguous dataset
  std::vector<Filter> filters_;
  std::vector<std::byte> fill_;  // value of what was never written, as the file stores it; empty: not given
  std::string locked_because_;   // "" = parallel
  // By chunk number, filled on first use. A map and not an array, since a damaged file may declare any number
  // of chunks.
  mutable std::mutex index_mutex_;
  mutable std::unordered_map<int64_t, Stored> index_;
};

/// Up to 20 other names at the root of the file, each in quotes, for messages.
std::vector<std::string> names_beside(const std::string& path, const std::string& name);

/// True if the file has a dataset `fields` without netCDF dimensions. A file that HDF5 cannot open is left to
/// its reader: true unless its name ends like a netCDF file's.
bool has_nersc_layout(const std::string& path);

}  // namespace isobar::data
