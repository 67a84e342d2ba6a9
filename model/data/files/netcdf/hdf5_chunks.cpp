// Chunked datasets: HDF5 is asked once for each chunk's address; chunks are then read and decoded without the
// library and its lock.
#include <algorithm>

#include "model/base/text/joined.h"
#include "model/data/fields/slab.h"
#include "model/data/files/netcdf/hdf5_handle.h"

namespace isobar::data {
namespace {

constexpr int64_t kSmallIndex = 4096;  // chunks: listed whole
constexpr int64_t kLookedUpAtOnce = 64;

}  // namespace

void Hdf5Array::read_chunks(const Index& start, const Index& count, std::byte* out,
                            const BytesArrived& arrived) const {
  const int64_t size = size_of(element_);
  const Index out_strides = strides_of(count), chunk_strides = strides_of(chunk_);
  visit_chunks(dims_, chunk_, start, count, [&](const ChunkPart& part) {
    const Stored stored = find_chunk(part.number);
    if (!stored.written)
      return fill(part, out + offset_of(part.to, out_strides) * size, out_strides, arrived);
    if (filters_.empty())  // reads only the wanted part
      return read_box(input_.fd(), static_cast<int64_t>(stored.address), chunk_, part.from, part.count, size,
                      out + offset_of(part.to, out_strides) * size, out_strides, arrived);
    copy_decoded(
        part, {this, chunk_, chunk_strides, size}, *cache_, [&](std::byte* to) { decode(stored, to); }, out,
        out_strides);
  });
}

/// Fills a part of a chunk that was never written; `arrived` is only given for parts that lie densely.
void Hdf5Array::fill(const ChunkPart& part, std::byte* out, const Index& out_strides,
                     const BytesArrived& arrived) const {
  const auto size = static_cast<int64_t>(fill_.size());
  copy_box(part.count, size, fill_.data(), Index(part.count.size(), 0), out, out_strides);
  if (arrived) arrived(out, product(part.count) * size);
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

// HDF5 1.10 walks the index from its start for each look-up, so that n chunks cost n^2 / 2 steps. Addresses
// are kept: all of a small index, else those of a few following chunks too, since the channels of a step are
// adjacent.
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

// Counting the chunks makes HDF5 read every node of the index.
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
  if (chunk.written || !fill_.empty()) return chunk;
  require_fill("the chunk of '" + name_ + "' at [" + joined(origin_of(number)) + "]");
  return chunk;
}

}  // namespace isobar::data
