#include "model/data/files/chunk_walk.h"

#include <algorithm>

#include "model/data/fields/slab.h"

namespace isobar::data {

void visit_chunks(const Index& dims, const Index& chunk, const Index& start, const Index& count,
                  const std::function<void(const ChunkPart&)>& visit) {
  if (product(count) == 0) return;
  const size_t rank = dims.size();
  ChunkPart p{0, Index(rank), Index(rank), Index(rank), Index(rank)};
  for (size_t k = 0; k < rank; ++k) p.at[k] = start[k] / chunk[k];
  for (;;) {
    p.number = 0;
    for (size_t k = 0; k < rank; ++k) {
      const int64_t origin = p.at[k] * chunk[k];
      const int64_t low = std::max(start[k], origin), high = std::min(start[k] + count[k], origin + chunk[k]);
      p.from[k] = low - origin;
      p.count[k] = high - low;
      p.to[k] = low - start[k];
      p.number = p.number * (dims[k] / chunk[k] + (dims[k] % chunk[k] != 0)) + p.at[k];
    }
    visit(p);
    size_t k = rank;
    while (k-- > 0) {
      if (++p.at[k] <= (start[k] + count[k] - 1) / chunk[k]) break;
      p.at[k] = start[k] / chunk[k];
    }
    if (k == static_cast<size_t>(-1)) return;
  }
}

bool in_one_chunk(const Index& chunk, const Index& start, const Index& count) {
  for (size_t k = 0; k < chunk.size(); ++k)
    if (count[k] < 1 || start[k] / chunk[k] != (start[k] + count[k] - 1) / chunk[k]) return false;
  return true;
}

int64_t offset_of(const Index& index, const Index& strides) {
  int64_t offset = 0;
  for (size_t k = 0; k < index.size(); ++k) offset += index[k] * strides[k];
  return offset;
}

void copy_decoded(const ChunkPart& part, const DecodedChunk& of, ChunkCache& cache,
                  const std::function<void(std::byte* out)>& decode, std::byte* out,
                  const Index& out_strides) {
  const int64_t bytes = product(of.chunk) * of.size;
  const auto copy = [&](const std::byte* chunk) {
    copy_box(part.count, of.size, chunk + offset_of(part.from, of.strides) * of.size, of.strides,
             out + offset_of(part.to, out_strides) * of.size, out_strides);
  };
  if (2 * product(part.count) > product(of.chunk) || bytes > cache.budget()) {  // caching gains little
    const bool as_it_is = part.count == of.chunk && out_strides == of.strides;
    thread_local std::vector<std::byte> scratch;
    if (as_it_is) return decode(out + offset_of(part.to, out_strides) * of.size);
    scratch.resize(static_cast<size_t>(bytes));
    decode(scratch.data());
    return copy(scratch.data());
  }
  const ChunkCache::Key key{of.array, part.number};
  const ChunkCache::Bytes cached = cache.find_or(key, [&] {
    auto fresh = std::make_shared<std::vector<std::byte>>(bytes);
    decode(fresh->data());
    return fresh;
  });
  copy(cached->data());
}

}  // namespace isobar::data
