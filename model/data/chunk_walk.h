// A box of an array that is cut into chunks, chunk by chunk: what Hdf5Array and ZarrArray have in common.
//
//   visit_chunks(dims, chunk, start, count, [&](const ChunkPart& p) { … copy p.count at p.from to p.to … });
#pragma once
#include <cstddef>
#include <functional>

#include "model/data/chunk_cache.h"
#include "model/data/raw_array.h"

namespace isobar {

struct ChunkPart {
  int64_t number;  // of the chunk, in C order
  Index at;        // its place among chunks
  Index from;      // where the wanted part begins, within the chunk
  Index count;     // of the wanted part
  Index to;        // where it begins in the box
};

void visit_chunks(const Index& dims, const Index& chunk, const Index& start, const Index& count,
                  const std::function<void(const ChunkPart&)>& visit);

/// Whether a box that is not empty lies in one of them
bool in_one_chunk(const Index& chunk, const Index& start, const Index& count);

/// The sum of index times stride
int64_t offset_of(const Index& index, const Index& strides);

/// A part of a chunk that has to be decoded whole, of elements of `size` bytes. A chunk of which the box
/// takes little is kept in the cache, for what is read next; one that is read whole is not.
struct DecodedChunk {
  const void* array;
  const Index &chunk, &strides;  // strides: of the decoded chunk, in elements
  int64_t size;
};
void copy_decoded(const ChunkPart& part, const DecodedChunk& of, ChunkCache& cache,
                  const std::function<void(std::byte* out)>& decode, std::byte* out,
                  const Index& out_strides);

}  // namespace isobar
