// An array of a Zarr store, readable by many threads in parallel: each reads and decodes the chunks that it
// needs.
//
// An absent chunk consists of the fill value, by Zarr's specification; a chunk that is short or does not
// decode is an ArrayError that names its key.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "model/base/dtype.h"
#include "model/data/fields/slab.h"
#include "model/data/files/chunk_walk.h"
#include "model/data/files/zarr/zarr_metadata.h"

namespace isobar::data {
namespace {

constexpr int64_t kMostOfChunk = int64_t{1} << 30;  // bytes, decoded

constexpr int64_t kMostOfShard = int64_t{1} << 22;  // chunks in it

template <class T>
std::vector<std::byte> bytes_of(double x) {
  T value = 0;
  if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(x);
  } else if (x >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
             x < static_cast<double>(std::numeric_limits<T>::max())) {
    value = static_cast<T>(x);
  } else if (x > 0) {
    value = std::numeric_limits<T>::max();
  }
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::vector<std::byte> element_bytes(Element e, double x) {
  switch (e) {
    case Element::i8:
      return bytes_of<int8_t>(x);
    case Element::u8:
      return bytes_of<uint8_t>(x);
    case Element::i16:
      return bytes_of<int16_t>(x);
    case Element::u16:
      return bytes_of<uint16_t>(x);
    case Element::i32:
      return bytes_of<int32_t>(x);
    case Element::u32:
      return bytes_of<uint32_t>(x);
    case Element::i64:
      return bytes_of<int64_t>(x);
    case Element::u64:
      return bytes_of<uint64_t>(x);
    case Element::f32:
      return bytes_of<float>(x);
    case Element::f64:
      return bytes_of<double>(x);
    case Element::f16:
      return bytes_of<uint16_t>(static_cast<double>(to_f16(static_cast<float>(x)).bits));
  }
  return {};
}

class ZarrArray : public RawArray {
 public:
  /// Throws ArrayError for an array that cannot be read.
  ZarrArray(std::shared_ptr<const ZarrStore> store, ZarrMetadata about, std::shared_ptr<ChunkCache> cache)
      : store_(std::move(store)), about_(std::move(about)), cache_(std::move(cache)) {
    const auto refuse = [&](const std::string& what) {
      throw ArrayError(
          "'" + about_.name + "' " + what,
          "write it anew with blosc, zstd, gzip, zlib or no compressor (xarray's to_zarr), or leave it out "
          "(data.variables)");
    };
    if (!about_.element) refuse("does not hold plain numbers");
    if (!about_.unread.empty()) refuse(about_.unread);
    declared_product(about_.dims);
    const int64_t bytes = declared_product(about_.chunk) * size_of(element());
    if (bytes > kMostOfChunk) refuse("has chunks of " + std::to_string(bytes) + " bytes, above 1 GiB");
    if (!about_.shard.empty() && declared_product(about_.shard) / product(about_.chunk) > kMostOfShard)
      refuse("has shards of more than 4 million chunks");
    strides_ = strides_of(about_.chunk);
    if (!about_.order.empty()) {
      Index as_stored;
      for (const int64_t axis : about_.order) as_stored.push_back(about_.chunk[axis]);
      const Index strides = strides_of(as_stored);
      for (size_t k = 0; k < strides.size(); ++k) strides_[about_.order[k]] = strides[k];
    }
    fill_ = element_bytes(element(), about_.fill);
  }

  const Index& dims() const override { return about_.dims; }
  Element element() const override { return *about_.element; }
  Index chunk() const override { return about_.chunk; }
  StorageLayout layout() const override {
    StorageLayout l{.element = name_of(element()),
                    .storage = about_.shard.empty() ? "chunked" : "sharded",
                    .big_endian = about_.swap,
                    .chunk = about_.chunk};
    for (const ZarrCodec& c : about_.codecs.chain) l.filters.push_back(c.name);
    return l;
  }
  void read(const Index& start, const Index& count, void* out) const override {
    require_inside(about_.dims, start, count);
    const Index out_strides = strides_of(count);
    visit_chunks(about_.dims, about_.chunk, start, count, [&](const ChunkPart& part) {
      copy_decoded(
          part, {this, about_.chunk, strides_, size_of(element())}, *cache_,
          [&](std::byte* to) { decode(part.at, to); }, static_cast<std::byte*>(out), out_strides);
    });
  }
  void read_in_pieces(const Index& start, const Index& count, void* out,
                      const Arrived& arrived) const override {
    const bool as_it_is = about_.codecs.chain.empty() && count == about_.chunk &&
                          strides_ == strides_of(count) && in_one_chunk(about_.chunk, start, count);
    if (!as_it_is) return RawArray::read_in_pieces(start, count, out, arrived);
    require_inside(about_.dims, start, count);
    auto* bytes = static_cast<std::byte*>(out);
    Index at = start;
    for (size_t k = 0; k < at.size(); ++k) at[k] /= about_.chunk[k];
    const int64_t size = size_of(element());
    const auto on_piece = [&](const std::byte* from, int64_t n) {
      arrived((from - bytes) / size, n / size, about_.swap);
    };
    if (read_as_it_is(at, bytes, on_piece)) return;
    fill(bytes);
    arrived(0, product(count), false);
  }

 private:
  struct Place {  // of an inner chunk in a shard
    uint64_t offset, bytes;
  };
  std::string key_of(const Index& at) const {
    std::string key = about_.name + "/" + about_.prefix;
    bool first = about_.prefix.empty();
    for (const int64_t i : at) {
      if (!first) key += about_.separator;
      first = false;
      key += std::to_string(i);
    }
    if (at.empty() && about_.prefix.empty()) key += "0";  // a scalar
    return key;
  }
  struct Held {  // a chunk's key and byte range
    std::string key;
    ZarrStore::Part part;
  };
  /// False when its shard's index marks it absent.
  bool find(const Index& at, Held& held) const {
    if (about_.shard.empty()) {
      held.key = key_of(at);
      return true;
    }
    Index shard = at;
    int64_t number = 0;
    for (size_t k = 0; k < at.size(); ++k) {
      const int64_t inside = about_.shard[k] / about_.chunk[k];
      shard[k] = at[k] / inside;
      number = number * inside + at[k] % inside;
    }
    held.key = key_of(shard);
    const auto index = index_of(held.key);
    const Place place = (*index)[static_cast<size_t>(number)];
    if (place.offset == UINT64_MAX && place.bytes == UINT64_MAX) return false;
    if (place.offset > INT64_MAX || place.bytes > INT64_MAX)
      throw ArrayError("its index points beyond its end", "the store is damaged: copy it again");
    held.part = {static_cast<int64_t>(place.offset), static_cast<int64_t>(place.bytes)};
    return true;
  }
  std::shared_ptr<const std::vector<Place>> index_of(const std::string& shard) const {
    {
      const std::lock_guard lock(index_mutex_);
      const auto found = indexes_.find(shard);
      if (found != indexes_.end()) return found->second;
    }
    const auto chunks = static_cast<size_t>(product(about_.shard) / product(about_.chunk));
    auto index = std::make_shared<std::vector<Place>>(chunks, Place{UINT64_MAX, UINT64_MAX});
    const auto bytes = static_cast<int64_t>(chunks * sizeof(Place));
    const int64_t held =
        bytes + 4 * static_cast<int64_t>(about_.index_codecs.chain.size());  // with checksums
    std::vector<std::byte> raw;
    if (store_->read(shard, {about_.index_first ? 0 : -held, held}, raw)) {
      about_.index_codecs.decode(raw, reinterpret_cast<std::byte*>(index->data()), bytes);
      if (about_.index_codecs.big_endian) swap_bytes(index->data(), static_cast<int64_t>(2 * chunks), 8);
    }
    const std::lock_guard lock(index_mutex_);
    return indexes_.emplace(shard, std::move(index)).first->second;
  }
  void decode(const Index& at, std::byte* out) const {
    thread_local std::vector<std::byte> bytes;
    const int64_t n = product(about_.chunk), size = size_of(element());
    if (about_.codecs.chain.empty()) {
      if (!read_as_it_is(at, out)) return fill(out);
    } else {
      Held held;
      try {
        if (!find(at, held) || !store_->read(held.key, held.part, bytes)) return fill(out);
        about_.codecs.decode(bytes, out, n * size);
      } catch (const ArrayError& e) {
        throw ArrayError("'" + (held.key.empty() ? about_.name : held.key) + "': " + e.what(), e.mend);
      }
    }
    if (about_.swap) swap_bytes(out, n, size);
  }
  // fills a chunk with the fill value
  void fill(std::byte* out) const {
    const int64_t n = product(about_.chunk), size = size_of(element());
    for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * size, fill_.data(), fill_.size());
  }
  /// Reads a chunk without codecs; false when it is absent, hence all fill value.
  bool read_as_it_is(const Index& at, std::byte* out, const BytesArrived& arrived = {}) const {
    Held held;
    try {
      return find(at, held) &&
             store_->read_to(held.key, held.part, out, product(about_.chunk) * size_of(element()), arrived);
    } catch (const ArrayError& e) {
      throw ArrayError("'" + (held.key.empty() ? about_.name : held.key) + "': " + e.what(), e.mend);
    }
  }

  std::shared_ptr<const ZarrStore> store_;
  ZarrMetadata about_;
  std::shared_ptr<ChunkCache> cache_;
  Index strides_;                // of a decoded chunk, which may be transposed
  std::vector<std::byte> fill_;  // one element
  mutable std::mutex index_mutex_;
  mutable std::unordered_map<std::string, std::shared_ptr<const std::vector<Place>>> indexes_;
};

}  // namespace

std::unique_ptr<RawArray> zarr_array(std::shared_ptr<const ZarrStore> store, ZarrMetadata about,
                                     std::shared_ptr<ChunkCache> cache) {
  return std::make_unique<ZarrArray>(std::move(store), std::move(about), std::move(cache));
}

}  // namespace isobar::data
