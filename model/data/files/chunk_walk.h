// Visits the chunks that a box of a chunked array overlaps; shared by HDF5 and Zarr.
//
//   visit_chunks(dims, chunk, start, count, [&](const ChunkPart& p) { … copy p.count at p.from to p.to … });
#pragma once
#include <cstddef>
#include <functional>

#include "model/data/fields/chunk_cache.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {

struct ChunkPart {
  int64_t number;  // of the chunk, linear in C order
  Index at;        // the chunk's index along each axis
  Index from;      // start of the part, within the chunk
  Index count;     // extent of the part
  Index to;        // start of the part, within the box
};

void visit_chunks(const Index& dims, const Index& chunk, const Index& start, const Index& count,
                  const std::function<void(const ChunkPart&)>& visit);

/// True when a non-empty box lies in one chunk
bool in_one_chunk(const Index& chunk, const Index& start, const Index& count);

/// The sum of index times stride
int64_t offset_of(const Index& index, const Index& strides);

/// A chunk that must be decoded whole, with elements of `size` bytes. It is cached only when the box takes a
/// small part of it, since the rest is likely to be read next.
struct DecodedChunk {
  const void* array;
  const Index &chunk, &strides;  // strides: of the decoded chunk, in elements
  int64_t size;
};
void copy_decoded(const ChunkPart& part, const DecodedChunk& of, ChunkCache& cache,
                  const std::function<void(std::byte* out)>& decode, std::byte* out,
                  const Index& out_strides);

}  // namespace isobar::data
