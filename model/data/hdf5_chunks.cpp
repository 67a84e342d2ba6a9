// Chunked datasets: HDF5 says once where each chunk lies, then its bytes are read and decoded without the
// library and without its lock.
#include <algorithm>

#include "model/data/hdf5_handle.h"
#include "model/data/slab.h"

namespace isobar {
namespace {

constexpr int64_t kSmallIndex = 4096;  // chunks: listed whole
constexpr int64_t kLookedUpAtOnce = 64;

}  // namespace

void Hdf5Array::read_chunks(const Index& start, const Index& count, std::byte* out) const {
  if (product(count) == 0) return;
  const size_t rank = dims_.size();
  const int64_t size = size_of(element_), chunk_bytes = product(chunk_) * size;
  const Index out_strides = strides_of(count), chunk_strides = strides_of(chunk_);
  Index at(rank), origin(rank), from(rank),
      n(rank);  // chunk coordinates; its origin; the part of it that is wanted
  for (size_t k = 0; k < rank; ++k) at[k] = start[k] / chunk_[k];
  for (;;) {
    int64_t number = 0, from_offset = 0, out_offset = 0;
    for (size_t k = 0; k < rank; ++k) {
      origin[k] = at[k] * chunk_[k];
      const int64_t low = std::max(start[k], origin[k]),
                    high = std::min(start[k] + count[k], origin[k] + chunk_[k]);
      from[k] = low - origin[k];
      n[k] = high - low;
      number = number * grid_[k] + at[k];
      from_offset += from[k] * chunk_strides[k] * size;
      out_offset += (low - start[k]) * out_strides[k] * size;
    }
    const auto copy = [&](const std::byte* chunk) {
      copy_box(n, size, chunk + from_offset, chunk_strides, out + out_offset, out_strides);
    };
    const Stored stored = find_chunk(number);
    if (filters_.empty()) {  // the wanted part alone, straight from the file
      read_box(input_.fd(), static_cast<int64_t>(stored.address), chunk_, from, n, size, out + out_offset,
               out_strides);
    } else if (2 * product(n) > product(chunk_) ||
               chunk_bytes > cache_->budget()) {  // little to gain by keeping it
      thread_local std::vector<std::byte> scratch;
      scratch.resize(chunk_bytes);
      decode(stored, scratch.data());
      copy(scratch.data());
    } else {
      const ChunkCache::Key key{this, number};
      ChunkCache::Bytes cached = cache_->find(key);
      if (!cached) {
        auto fresh = std::make_shared<std::vector<std::byte>>(chunk_bytes);
        decode(stored, fresh->data());
        cache_->insert(key, cached = fresh);
      }
      copy(cached->data());
    }
    size_t k = rank;
    while (k-- > 0) {
      if (++at[k] <= (start[k] + count[k] - 1) / chunk_[k]) break;
      at[k] = start[k] / chunk_[k];
    }
    if (k == static_cast<size_t>(-1)) return;
  }
}

void Hdf5Array::decode(const Stored& chunk, std::byte* out) const {
  thread_local std::vector<std::byte> stored;
  if (chunk.bytes > static_cast<uint64_t>(input_.size()))
    throw ArrayError("a chunk of '" + name_ + "' should take " + std::to_string(chunk.bytes) +
                         " bytes, more than the file has",
                     "copy or download it again");
  stored.resize(chunk.bytes);
  read_exactly(input_.fd(), stored.data(), static_cast<int64_t>(chunk.bytes),
               static_cast<int64_t>(chunk.address));
  decode_chunk(filters_, chunk.skipped, stored, out, product(chunk_) * size_of(element_));
}

Index Hdf5Array::origin_of(int64_t number) const {
  Index origin(dims_.size());
  for (size_t k = dims_.size(); k-- > 0; number /= grid_[k]) origin[k] = number % grid_[k] * chunk_[k];
  return origin;
}

// HDF5 1.10 walks the index from its start to find a chunk (measured: up to 0.5 ms among 29,200 chunks), so n
// chunks cost n^2 / 2 steps. They are looked up when first wanted and remembered: all of a small index, else
// a few more than the one asked for, since channels of a step follow each other.
void Hdf5Array::look_up(int64_t number) const {
  const LibraryLock lock(file_);
  const Opened opened(file_, name_);
  const int64_t n = declared_product(grid_);
  const int64_t first = n <= kSmallIndex ? 0 : number;
  const int64_t last = n <= kSmallIndex ? n : std::min(number + kLookedUpAtOnce, n);
  for (int64_t i = first; i < last; ++i) {
    if (index_.contains(i)) continue;
    const Index origin = origin_of(i);
    const std::vector<hsize_t> at(origin.begin(), origin.end());
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;
    if (H5Dget_chunk_info_by_coord(opened.set.id, at.data(), &mask, &address, &bytes) < 0)
      throw ArrayError("HDF5 cannot find a chunk of '" + name_ + "': " + hdf5_message(),
                       "copy the file again");
    index_[i] = {address, bytes, mask, address != HADDR_UNDEF};
  }
}

// To count the chunks HDF5 reads every node of the index.
void Hdf5Array::walk_index() const {
  const LibraryLock lock(file_);
  const Opened opened(file_, name_);
  const Handle space(H5Dget_space(opened.set.id), H5Sclose);
  hsize_t chunks = 0;
  if (H5Dget_num_chunks(opened.set.id, space.id, &chunks) < 0)
    throw ArrayError("HDF5 cannot count the chunks of '" + name_ + "': " + hdf5_message(),
                     "copy the file again");
}

Hdf5Array::Stored Hdf5Array::find_chunk(int64_t number) const {
  const std::lock_guard<std::mutex> lock(index_mutex_);
  if (!index_.contains(number)) look_up(number);
  const Stored chunk = index_.at(number);
  if (chunk.written) return chunk;
  std::string where;
  for (int64_t o : origin_of(number)) where += (where.empty() ? "" : ", ") + std::to_string(o);
  throw ArrayError("the chunk of '" + name_ + "' at [" + where + "] was never written",
                   "make the file again");
}

}  // namespace isobar
