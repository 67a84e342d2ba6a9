// A numeric dataset of an HDF5 or netCDF-4 file that many threads read at once.
//
// The HDF5 C library lets one thread in at a time. So the library only says where the bytes lie (contiguous
// offset, chunk addresses, filters, element type); reading (pread) and decoding run in the calling thread,
// outside any lock. What this reader cannot decode itself (szip, zstd, virtual or compact datasets, unusual
// number formats) goes through H5Dread behind the library lock: slower, never wrong. layout() says which way
// a dataset goes.
//
// No HDF5 handle outlives a call: netCDF opens the same files with another close degree, which HDF5 refuses
// while a handle is open.
//
//   Hdf5Array fields("2015.h5", "fields", std::make_shared<ChunkCache>(64 << 20));
//   fields.read({t, 0, 0, 0}, {1, C, H, W}, out);
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/base/files.h"
#include "model/data/chunk_cache.h"
#include "model/data/filters.h"
#include "model/data/raw_array.h"
#include "model/data/slab.h"

namespace isobar {

class Hdf5Array : public RawArray {
 public:
  /// Throws ArrayError: not HDF5, truncated, no such dataset, in another file, not numeric, larger than its
  /// file can hold. Of a damaged file the library may die instead: foreign files are read in a child first
  /// (model/data/foreign.h).
  Hdf5Array(const std::string& file, const std::string& name, std::shared_ptr<ChunkCache> cache);

  const Index& dims() const override { return dims_; }
  Element element() const override { return element_; }
  Index chunk() const override { return chunk_; }
  StorageLayout layout() const override;
  void read(const Index& start, const Index& count, void* out) const override;
  void read_told(const Index& start, const Index& count, void* out, const Arrived& arrived) const override;
  void try_library(int64_t most_bytes, const std::function<void()>& alive) const override;

  /// Text attributes of the dataset: one string, or one per element of a string array; {} when there is none.
  std::vector<std::string> text_attribute(const std::string& name) const;

 private:
  struct Stored {  // where a chunk lies
    uint64_t address = 0, bytes = 0;
    uint32_t skipped = 0;  // filter mask
    bool written = false;
  };
  void read_layout(int64_t file, int64_t set);
  void read_filters(int64_t set, int64_t dcpl);
  void require_all_of_compact(int64_t set, int64_t dcpl, int64_t element_bytes) const;
  void walk_index() const;
  void read_locked(const Index& start, const Index& count, void* out) const;
  void read_chunks(const Index& start, const Index& count, std::byte* out,
                   const BytesArrived& arrived = {}) const;
  Stored find_chunk(int64_t number) const;
  void look_up(int64_t number) const;
  Index origin_of(int64_t number) const;
  void decode(const Stored& chunk, std::byte* out) const;

  std::string file_, name_;
  std::shared_ptr<ChunkCache> cache_;
  InputFile input_;
  Index dims_, chunk_, grid_;  // grid_: number of chunks along each axis
  Element element_ = Element::f32;
  bool swap_ = false;    // file bytes are big-endian
  int64_t offset_ = -1;  // of a contiguous dataset in the file
  std::vector<Filter> filters_;
  std::string locked_because_;  // "" = parallel
  // By chunk number, looked up on first use. Not one place for every declared chunk: that would be as many as
  // a damaged file likes.
  mutable std::mutex index_mutex_;
  mutable std::unordered_map<int64_t, Stored> index_;
};

/// What lies at the root of the file beside that name, each in quotes; up to 20 of them.
std::vector<std::string> names_beside(const std::string& path, const std::string& name);

/// Whether the file has a dataset `fields` that netCDF's dimensions do not describe. What HDF5 cannot open is
/// left to its reader: true unless the name is that of a netCDF file.
bool has_nersc_layout(const std::string& path);

}  // namespace isobar
