// An array of a Zarr store, readable by many threads in parallel: each reads and decodes the chunks that it
// needs.
//
//   ZarrArray t2m(store, metadata, std::make_shared<ChunkCache>(64 << 20));
//   t2m.read({t, 0, 0}, {1, H, W}, out);
//
// An absent chunk consists of the fill value, by Zarr's specification; a chunk that is short or does not
// decode is an ArrayError that names its key.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>

#include "model/data/files/chunk_walk.h"
#include "model/data/files/zarr/zarr_metadata.h"

namespace isobar::data {

class ZarrArray : public RawArray {
 public:
  /// Throws ArrayError for an array that cannot be read.
  ZarrArray(std::shared_ptr<const ZarrStore> store, ZarrMetadata about, std::shared_ptr<ChunkCache> cache);

  const Index& dims() const override { return about_.dims; }
  Element element() const override { return *about_.element; }
  Index chunk() const override { return about_.chunk; }
  StorageLayout layout() const override;
  void read(const Index& start, const Index& count, void* out) const override;
  void read_in_pieces(const Index& start, const Index& count, void* out,
                      const Arrived& arrived) const override;

 private:
  struct Place {  // of an inner chunk in a shard
    uint64_t offset, bytes;
  };
  std::string key_of(const Index& at) const;
  struct Held {  // a chunk's key and byte range
    std::string key;
    ZarrStore::Part part;
  };
  /// False when its shard's index marks it absent.
  bool find(const Index& at, Held& held) const;
  std::shared_ptr<const std::vector<Place>> index_of(const std::string& shard) const;
  void decode(const Index& at, std::byte* out) const;
  void fill(std::byte* out) const;  // fills a chunk with the fill value
  /// Reads a chunk without codecs; false when it is absent, hence all fill value.
  bool read_as_it_is(const Index& at, std::byte* out, const BytesArrived& arrived = {}) const;

  std::shared_ptr<const ZarrStore> store_;
  ZarrMetadata about_;
  std::shared_ptr<ChunkCache> cache_;
  Index strides_;                // of a decoded chunk, which may be transposed
  std::vector<std::byte> fill_;  // one element
  mutable std::mutex index_mutex_;
  mutable std::unordered_map<std::string, std::shared_ptr<const std::vector<Place>>> indexes_;
};

}  // namespace isobar::data
